// ptx_flow.cpp - control flow of a kernel: basic blocks, and where the lanes of a divergent branch meet again.
//
// That place is the immediate post-dominator of the branch: the first block that every path from it to the end
// of the kernel goes through. It is computed as the immediate dominator in the reversed graph (Cooper, Harvey,
// Kennedy, "A simple, fast dominance algorithm"): over the blocks in post-order until nothing changes,
//
//     ipdom(b) = the common ancestor, in the tree so far, of all blocks that may follow b
#include "sim/ptx/ptx_flow.h"

#include <algorithm>

namespace ptx {
bool is_branch(const Statement &s) { return s.target >= 0; }
bool is_exit(const Statement &s) { return s.op == "exit" || s.op.substr(0, 3) == "ret" || s.op == "trap"; }

Flow flow_of(const Body &b) {
    const int    n = (int)b.code.size();
    vector<char> leads((size_t)n + 1, 0);
    leads[0] = 1;
    for (int k = 0; k < n; k++) {
        const Statement &s = b.code[(size_t)k];
        if (is_branch(s)) leads[(size_t)s.target] = 1;
        if (is_branch(s) || is_exit(s)) leads[(size_t)k + 1] = 1;
    }
    Flow f;
    f.block_of.resize((size_t)n);
    for (int k = 0; k < n; k++) {
        if (leads[(size_t)k]) f.blocks.push_back({k, k, {}});
        f.block_of[(size_t)k] = (int)f.blocks.size() - 1;
        f.blocks.back().end   = k + 1;
    }
    for (size_t i = 0; i < f.blocks.size(); i++) {
        const Statement &last = b.code[(size_t)f.blocks[i].end - 1];
        vector<int>     &next = f.blocks[i].next;
        if (is_branch(last)) next.push_back(f.block_of[(size_t)last.target]);
        if (is_exit(last)) next.push_back((int)f.blocks.size());
        if ((!is_branch(last) && !is_exit(last)) || last.guard >= 0) next.push_back((int)i + 1);
    }
    return f;
}

namespace {
struct PostDominators {
    const Flow         &f;
    vector<vector<int>> before; // blocks by which a block may be reached
    vector<int>         order, number, ipdom;

    // Post-order of the reversed graph, from the end of the kernel.
    void visit() {
        vector<std::pair<int, size_t>> stack{
            {(int)f.blocks.size(), 0}
        };
        vector<char> seen(f.blocks.size() + 1, 0);
        seen[f.blocks.size()] = 1;
        while (!stack.empty()) {
            auto &[b, k] = stack.back();
            if (k == before[(size_t)b].size()) {
                number[(size_t)b] = (int)order.size();
                order.push_back(b);
                stack.pop_back();
                continue;
            }
            const int p = before[(size_t)b][k++];
            if (seen[(size_t)p]) continue;
            seen[(size_t)p] = 1;
            stack.push_back({p, 0});
        }
    }
    int common(int a, int b) const {
        while (a != b) {
            while (number[(size_t)a] < number[(size_t)b]) a = ipdom[(size_t)a];
            while (number[(size_t)b] < number[(size_t)a]) b = ipdom[(size_t)b];
        }
        return a;
    }
    explicit PostDominators(const Flow &flow)
        : f(flow), before(f.blocks.size() + 1), number(f.blocks.size() + 1, -1), ipdom(f.blocks.size() + 1, -1) {
        for (size_t i = 0; i < f.blocks.size(); i++)
            for (int s : f.blocks[i].next) before[(size_t)s].push_back((int)i);
        visit();
        const int end      = (int)f.blocks.size();
        ipdom[(size_t)end] = end;
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t k = order.size(); k-- > 0;) {
                const int b = order[k];
                if (b == end) continue;
                int best = -1;
                for (int s : f.blocks[(size_t)b].next)
                    if (ipdom[(size_t)s] >= 0) best = best < 0 ? s : common(best, s);
                if (best == ipdom[(size_t)b]) continue;
                ipdom[(size_t)b] = best;
                changed          = true;
            }
        }
    }
};
} // namespace

vector<uint32_t> immediate_post_dominators(const Body &b) {
    const Flow           f = flow_of(b);
    const PostDominators p(f);
    vector<uint32_t>     join(b.code.size(), NOWHERE);
    for (auto &block : f.blocks) {
        const int i = (int)(&block - f.blocks.data()), d = p.ipdom[(size_t)i];
        if (d >= 0 && d < (int)f.blocks.size()) join[(size_t)block.end - 1] = (uint32_t)f.blocks[(size_t)d].first;
    }
    return join;
}
} // namespace ptx
