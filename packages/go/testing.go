package brokersim

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCluster is the cluster of a test. Its own methods end the test where something can't be done, or a wait's deadline passes; those of
// Cluster and API return errors.
type TestCluster struct {
	*Cluster
	// Scenario is that of ForScenario, nil without it.
	Scenario *Scenario
	t        testing.TB
}

// New starts a cluster for a test, and stops it behind the test. If the test fails, the history of its groups is logged.
func New(t testing.TB, opts ...Opt) *TestCluster {
	t.Helper()
	cluster, err := NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	kafka := &TestCluster{Cluster: cluster, t: t}
	t.Cleanup(func() {
		defer cluster.Close()
		if !t.Failed() {
			return
		}
		if history, err := cluster.JournalRecent(); err == nil && strings.TrimSpace(history.Text) != "" {
			t.Log("\n" + history.Text)
		}
	})
	if cluster.scenario != "" {
		kafka.Scenario = kafka.StartScenario(cluster.scenario, ScenarioStartParams{AnySettings: true})
	}
	return kafka
}

// must ends the test on an error.
func must[T any](t testing.TB, answer T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Fill appends records to a topic, as a producer does, spread over its partitions.
func (k *TestCluster) Fill(topic string, records int) {
	k.t.Helper()
	answer, err := k.TopicFill(topic, records, TopicFillParams{})
	must(k.t, answer, err)
}

// Records returns the records of a topic, by partition and offset; up to 10,000.
func (k *TestCluster) Records(topic string) []Record {
	k.t.Helper()
	answer, err := k.TopicRecords(topic, TopicRecordsParams{Limit: 10_000})
	return must(k.t, answer, err).Records
}

// AwaitRecords waits until a topic has so many records, and returns them.
func (k *TestCluster) AwaitRecords(topic string, count int, timeout time.Duration) []Record {
	k.t.Helper()
	answer, err := k.TopicWait(topic, count, TopicWaitParams{Timeout: timeout})
	must(k.t, answer, err)
	return k.Records(topic)
}

// Group returns what a group's coordinator knows of it.
func (k *TestCluster) Group(name string) GroupInfo {
	k.t.Helper()
	answer, err := k.GroupGet(name, GroupGetParams{})
	return must(k.t, answer, err)
}

// AwaitStable waits until a group is stable with so many members; the error of a deadline that passes has the group's history.
func (k *TestCluster) AwaitStable(name string, members int, timeout time.Duration) GroupInfo {
	k.t.Helper()
	answer, err := k.GroupWait(name, GroupWaitParams{State: "Stable", Members: &members, Timeout: timeout})
	return must(k.t, answer, err)
}

// AwaitReading waits as AwaitStable, and until every assigned partition was fetched by its owner: records that are produced then are
// delivered, whatever the client's start offset is.
func (k *TestCluster) AwaitReading(name string, members int, timeout time.Duration) GroupInfo {
	k.t.Helper()
	answer, err := k.GroupWait(name, GroupWaitParams{State: "Stable", Members: &members, Reading: true, Timeout: timeout})
	return must(k.t, answer, err)
}

// Explain says in words why a group rebalanced, who delayed it, and how it ended.
func (k *TestCluster) Explain(group string) string {
	k.t.Helper()
	answer, err := k.GroupExplain(group, GroupExplainParams{})
	return must(k.t, answer, err).Text
}

// AwaitAnswer waits until a request of that API for that group was answered with that error; NONE: with none. Earlier answers count.
func (k *TestCluster) AwaitAnswer(api, group, failure string) {
	k.t.Helper()
	answer, err := k.JournalNext(JournalNextParams{API: api, Group: group, Error: failure})
	must(k.t, answer, err)
}

// Requests returns the requests that the brokers received, the oldest first, up to the latest 10,000.
func (k *TestCluster) Requests(selectors RequestListParams) []Request {
	k.t.Helper()
	if selectors.Limit == 0 {
		selectors.Limit = 10_000
	}
	answer, err := k.RequestList(selectors)
	return must(k.t, answer, err).Requests
}

// AwaitRequests waits until Count requests were received and answered; the error lists what was received instead.
func (k *TestCluster) AwaitRequests(selectors RequestWaitParams) []Request {
	k.t.Helper()
	if selectors.Limit == 0 {
		selectors.Limit = 10_000
	}
	if selectors.Count == 0 {
		selectors.Count = 1
	}
	selectors.Answered = true
	answer, err := k.RequestWait(selectors)
	return must(k.t, answer, err).Requests
}

// Advance advances a manual clock and returns the timers that fired; members that are not named in expire stay alive.
func (k *TestCluster) Advance(by time.Duration, expire ...string) []string {
	k.t.Helper()
	answer, err := k.ClockAdvance(by, ClockAdvanceParams{Expire: expire})
	return must(k.t, answer, err).Fired
}

// Do is Try for what must not fail.
func (k *TestCluster) Do(method, path string, params Params, answer any) {
	k.t.Helper()
	if err := k.Try(method, path, params, answer); err != nil {
		k.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// State is a fault state of a log partition; it ends with Heal, or with the test.
type State struct {
	kafka *TestCluster
	log   string
	id    int
}

// SetState sets a fault state of a log partition: "orders-0", or OffsetsLog(group).
func (k *TestCluster) SetState(log, state string, params StateSetParams) *State {
	k.t.Helper()
	answer, err := k.StateSet(log, state, params)
	states := must(k.t, answer, err).States
	return &State{k, log, int(states[len(states)-1].ID)}
}

// AwaitPending waits until so many requests wait for the log.
func (s *State) AwaitPending(requests int) {
	s.kafka.t.Helper()
	answer, err := s.kafka.LogWait(s.log, LogWaitParams{Pending: requests})
	must(s.kafka.t, answer, err)
}

// Heal clears the state; no error where it has ended.
func (s *State) Heal() {
	s.kafka.t.Helper()
	answer, err := s.kafka.StateHeal(s.log, StateHealParams{ID: s.id})
	must(s.kafka.t, answer, err)
}

// Fault is a rule on requests that is active until Remove, or to the end of the test, which fails where it never matched.
type Fault struct {
	kafka   *TestCluster
	id      int
	removed atomic.Bool
}

// AddFault adds a rule.
func (k *TestCluster) AddFault(rule FaultAddParams) *Fault {
	k.t.Helper()
	answer, err := k.FaultAdd(rule)
	added := must(k.t, answer, err)
	fault := &Fault{kafka: k, id: int(added.ID)}
	k.t.Cleanup(func() {
		if err := fault.Remove(); err != nil && !k.t.Failed() {
			k.t.Error(err)
		}
	})
	return fault
}

// AwaitHits waits until the rule has matched that often.
func (f *Fault) AwaitHits(hits int) {
	f.kafka.t.Helper()
	answer, err := f.kafka.FaultWait(f.id, FaultWaitParams{Hits: hits})
	must(f.kafka.t, answer, err)
}

// Remove removes the rule; it is an error if it never matched.
func (f *Fault) Remove() error {
	if f.removed.Swap(true) {
		return nil
	}
	_, err := f.kafka.FaultRemove(f.id, FaultRemoveParams{})
	return err
}

// Scenario is a scenario file whose steps run on the cluster; it ends with End, or with the test, which fails where an expectation of the
// file failed.
type Scenario struct {
	kafka *TestCluster
	id    int
	ended atomic.Bool
}

// StartScenario runs the steps of a scenario file with the clients of the test: a path, or the name of an included scenario.
func (k *TestCluster) StartScenario(file string, params ScenarioStartParams) *Scenario {
	k.t.Helper()
	name, text, err := scenarioFile(file)
	if err != nil {
		k.t.Fatal(err)
	}
	params.Name, params.File = name, text
	started, err := k.ScenarioStart(params)
	scenario := &Scenario{kafka: k, id: int(must(k.t, started, err).ID)}
	k.t.Cleanup(func() {
		if err := scenario.End(); err != nil && !k.t.Failed() {
			k.t.Error(err)
		}
	})
	return scenario
}

// AwaitStep waits until a step is done.
func (s *Scenario) AwaitStep(step string, timeout time.Duration) {
	s.kafka.t.Helper()
	answer, err := s.kafka.ScenarioWait(s.id, ScenarioWaitParams{Step: step, Timeout: timeout})
	must(s.kafka.t, answer, err)
}

// AwaitEnd waits until all steps are done and all expectations held; it ends the test where one failed.
func (s *Scenario) AwaitEnd(timeout time.Duration) ScenarioInfo {
	s.kafka.t.Helper()
	answer, err := s.kafka.ScenarioWait(s.id, ScenarioWaitParams{Timeout: timeout})
	return must(s.kafka.t, answer, err)
}

// Describe returns the steps that are done, what the scenario waits for, its progress and its verdict.
func (s *Scenario) Describe() ScenarioInfo {
	s.kafka.t.Helper()
	answer, err := s.kafka.ScenarioGet(s.id)
	return must(s.kafka.t, answer, err)
}

// End cancels the scenario if it runs, and clears the faults that its steps have set; it is an error if an expectation failed, unless
// AwaitEnd has reported that.
func (s *Scenario) End() error {
	if s.ended.Swap(true) {
		return nil
	}
	_, err := s.kafka.ScenarioEnd(s.id, ScenarioEndParams{})
	return err
}
