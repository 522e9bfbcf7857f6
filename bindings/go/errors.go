// Codes and texts of failures.

package reprise

// #include <reprise/nn.h>
import "C"

import (
	"errors"
	"fmt"
)

// Status is a code of RpStatus (reprise/status.h).
type Status int

const (
	OutOfMemory  Status = C.RP_E_NOMEM
	IO           Status = C.RP_E_IO
	Format       Status = C.RP_E_FORMAT
	Shape        Status = C.RP_E_SHAPE
	BadDtype     Status = C.RP_E_DTYPE
	Unsupported  Status = C.RP_E_UNSUPPORTED
	Argument     Status = C.RP_E_ARG
	State        Status = C.RP_E_STATE
	ContextFull  Status = C.RP_E_CONTEXT_FULL
	Cancelled    Status = C.RP_E_CANCELLED
	NotAvailable Status = C.RP_E_NOT_AVAILABLE
	CudaFailed   Status = C.RP_E_CUDA
)

func (s Status) String() string { return C.GoString(C.rp_status_text(C.RpStatus(s))) }

// NnStatus is a code of RpNnStatus (reprise/nn.h).
type NnStatus int

const (
	NnNotAvailable    NnStatus = C.RP_NN_NOT_AVAILABLE
	NnInvalidArgument NnStatus = C.RP_NN_INVALID_ARGUMENT
	NnExecutionFailed NnStatus = C.RP_NN_EXECUTION_FAILED
	NnOutOfMemory     NnStatus = C.RP_NN_OUT_OF_MEMORY
)

// Error is a failure, as the library gave it.
type Error struct {
	Code int    // a Status, or an NnStatus
	Nn   bool   // of libreprise_nn: the functions on slices, streams and buffers
	Text string // names the file, the tensor or the op
}

func (e *Error) Error() string { return e.Text }

// IsNotAvailable is true if this build or this machine lacks what was asked for, such as a GPU.
func (e *Error) IsNotAvailable() bool {
	if e.Nn {
		return e.Code == int(NnNotAvailable)
	}
	return e.Code == int(NotAvailable)
}

// Is makes errors.Is(err, reprise.ContextFull) work.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Status:
		return !e.Nn && e.Code == int(t)
	case NnStatus:
		return e.Nn && e.Code == int(t)
	}
	return false
}

func (s Status) Error() string   { return s.String() }
func (s NnStatus) Error() string { return fmt.Sprintf("status %d of reprise/nn.h", int(s)) }

// IsNotAvailable is true for an *Error, also a wrapped one, that is.
func IsNotAvailable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.IsNotAvailable()
}

func argumentError(format string, values ...any) error {
	return &Error{Code: int(Argument), Text: fmt.Sprintf(format, values...)}
}
