// Package failing has tests that must fail; tests/control/test_from_go.py has what each says.
package failing

import (
	"os"
	"testing"

	brokersim "broker-sim/tests/from_go"
)

func TestMain(m *testing.M) { os.Exit(brokersim.Main(m)) }

func TestARuleThatNeverMatches(t *testing.T) {
	kafka := brokersim.New(t, brokersim.Options{})
	kafka.AddFault(brokersim.Params{"api": "OffsetCommit", "group": "billing", "drop": true, "times": 1})
}

func TestAFailureBeforeAnythingHappened(t *testing.T) {
	brokersim.New(t, brokersim.Options{})
	t.Error("the test's own")
}
