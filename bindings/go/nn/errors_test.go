// The errors of bad input.

package nn

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise"
)

// Bad input gives the codes and texts of bindings/errors.txt, which other languages have too.
func TestBadInputHasTheCodesAndTextsOfTheTable(t *testing.T) {
	root := os.Getenv("REPRISE_SOURCE")
	if root == "" {
		root = "../../.."
	}
	table := must[[]byte](t)(os.ReadFile(filepath.Join(root, "bindings/errors.txt")))
	n := 0
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		name := strings.Split(line, "\t")[0]
		if !strings.HasPrefix(name, "nn_") {
			continue
		}
		var e *reprise.Error
		if err := ofNn(name); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		} else if got := fmt.Sprintf("%s\tnn\t%d\t%s", name, e.Code, e.Text); got != line || !e.Nn {
			t.Errorf("got    %s\nwanted %s", got, line)
		}
		n++
	}
	if n < 8 {
		t.Error(n)
	}
}

func ofNn(name string) error {
	x, y, ids := make([]float32, 8), make([]float32, 8), make([]int32, 10)
	switch name {
	case "nn_length":
		return Silu(x, y[:3])
	case "nn_rows":
		return Softmax(x, y, 3, 4)
	case "nn_negative":
		return Softmax(x, y, -1, 4)
	case "nn_negative_dim":
		return Rmsnorm(x, x, y, 1, -8, 0)
	case "nn_overflow":
		return Softmax(x, y, math.MaxInt64, 4)
	case "nn_weight":
		return Rmsnorm(x, x, y, 2, 4, 0)
	case "nn_k":
		return Topk(x, nil, ids, 2, 4, 5)
	case "nn_k_negative":
		return Topk(x, nil, ids, 2, 4, -5)
	}
	return errors.New("errors.txt has a case that this test lacks")
}
