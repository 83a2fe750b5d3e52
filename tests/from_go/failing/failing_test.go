// Package failing has tests that must fail; tests/control/test_from_go.py has what each says.
package failing

import (
	"testing"
	"time"

	brokersim "github.com/broker-sim/broker-sim/packages/go"
)

func TestARuleThatNeverMatches(t *testing.T) {
	kafka := brokersim.New(t)
	kafka.AddFault(brokersim.FaultAddParams{API: []string{"OffsetCommit"}, Group: "billing", Drop: true, Times: 1})
}

func TestAFailureBeforeAnythingHappened(t *testing.T) {
	brokersim.New(t)
	t.Error("the test's own")
}

func TestAScenarioWhoseExpectationsFail(t *testing.T) {
	kafka := brokersim.New(t)
	scenario := kafka.StartScenario("testdata/nobody.yaml", brokersim.ScenarioStartParams{})
	scenario.AwaitStep("nothing", 20*time.Second)
}
