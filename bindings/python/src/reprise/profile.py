"""The table of Executor.profile."""
from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import Error

if TYPE_CHECKING:
    from .executor import ExecutorInfo
    from typing_extensions import Unpack

    from ._options import DrawOptions, Note
    from .graph import Graph, Node


class Row(NamedTuple):
    """One step: median time in microseconds, bytes that it moves, and its share of the sum."""

    number: int
    op: str
    name: str
    layer: int | None
    us: float
    bytes: int
    share: float

    @property
    def gb_s(self) -> float:
        return self.bytes / self.us / 1e3 if self.us > 0 else 0.0


class Profile:
    """The steps of a run with their times. str() is a table by op, `rows` has every step, to_dot() a drawing coloured by time."""

    def __init__(self, graph: Graph, info: ExecutorInfo, runs: int, total_us: float, rows: list[Row]) -> None:
        self.graph, self.info, self.runs, self.total_us, self.rows = graph, info, runs, total_us, rows

    @classmethod
    def of(cls, graph: Graph, info: ExecutorInfo, runs: int, total_us: float, steps: list[tuple[Node, int, float]]) -> Profile:
        total = sum(us for _, _, us in steps) or 1.0
        return cls(graph, info, runs, total_us, [Row(node.number, node.op, node.name, node.layer, us, n_bytes, us / total)
                                                 for node, n_bytes, us in steps])

    @property
    def sum_us(self) -> float:
        return sum(row.us for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def by_op(self) -> list[tuple[str, int, float, float, float]]:
        """(op, nodes, microseconds, share, GB/s), the slowest first."""
        ops: dict[str, list[Row]] = {}
        for row in self.rows:
            ops.setdefault(row.op, []).append(row)
        listed = []
        for op, rows in ops.items():
            us = sum(row.us for row in rows)
            listed.append((op, len(rows), us, sum(row.share for row in rows), sum(row.bytes for row in rows) / max(us, 1e-9) / 1e3))
        return sorted(listed, key=lambda item: -item[2])

    def slowest(self, n: int = 12) -> list[Row]:
        return sorted(self.rows, key=lambda row: -row.us)[:n]

    def to_dict(self) -> dict[str, Any]:
        """For a DataFrame: the columns of `rows`."""
        return {name: [getattr(row, name) for row in self.rows] for name in (*Row._fields, "gb_s")}

    def notes(self) -> dict[int, Note]:
        top = max((row.us for row in self.rows), default=1.0)
        return {row.number: (f"{row.us:.2f} us  {row.gb_s:.1f} GB/s", row.us / top, row.us) for row in self.rows}

    def to_dot(self, **options: Unpack[DrawOptions]) -> str:
        """The graph, each node with its time and coloured by it. Options as Graph.dump."""
        return self.graph.to_dot(notes=self.notes(), **options)

    def to_svg(self, **options: Unpack[DrawOptions]) -> str:
        from .graph import svg_of
        return svg_of(self.to_dot(**options))

    def _repr_svg_(self) -> str:
        from .graph import message_svg
        try:
            return self.to_svg()
        except Error as error:
            return message_svg(str(error))

    @property
    def title(self) -> str:
        return (f"{self.info.device}, {self.info.device_name}, {self.info.mode}: {self.total_us:.1f} us a run, "
                f"sum of {len(self.rows)} steps {self.sum_us:.1f} us, medians of {self.runs} runs")

    def _table(self) -> Iterable[tuple[str, ...]]:
        yield "op", "nodes", "us", "share", "GB/s"
        for op, n, us, share, gb_s in self.by_op():
            yield op, str(n), f"{us:.1f}", f"{100 * share:.1f}%", f"{gb_s:.1f}"

    def __str__(self) -> str:
        rows = list(self._table())
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))) for row in rows]
        return "\n".join([self.title, "", *lines])

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return (f"<table><caption>{html.escape(self.title)}</caption><tr>" + "".join(f"<th>{cell}</th>" for cell in head)
                + f"</tr>{body}</table>")
