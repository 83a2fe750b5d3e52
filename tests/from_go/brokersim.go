// Package brokersim lets Go tests run against virtual Kafka clusters, and break them, by HTTP.
//
//	func TestMain(m *testing.M) { os.Exit(brokersim.Main(m)) }
//
//	func TestCommit(t *testing.T) {
//		kafka := brokersim.New(t, brokersim.Options{Brokers: 3, Clock: "manual"})
//		...
//	}
//
// Main starts one process, broker-sim serve --control 0, for all tests of a package: the program on the PATH, or the words of
// the environment variable BROKER_SIM_COMMAND. New starts a cluster there that lives as long as its test. A test that fails
// tells what happened to its groups.
package brokersim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second
	install      = "python3 -m pip install 'broker-sim[control]' installs it; BROKER_SIM_COMMAND names another program, as in python3 -m broker_sim"
)

var control string // http://HOST:PORT

// Main runs the tests of a package while a process serves their clusters; it returns their exit code.
func Main(m *testing.M) int {
	words := strings.Fields(os.Getenv("BROKER_SIM_COMMAND"))
	if len(words) == 0 {
		words = []string{"broker-sim"}
	}
	command := exec.Command(words[0], append(words[1:], "serve", "--control", "0", "--until-eof")...)
	command.Stderr = os.Stderr
	_, err := command.StdinPipe() // it ends with this process, however that ends
	stdout, failed := command.StdoutPipe()
	if err == nil && failed != nil {
		err = failed
	}
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "can't start broker-sim: %v; %s\n", err, install)
		return 2
	}
	defer func() {
		command.Process.Signal(os.Interrupt) // an orderly end
		command.Wait()
	}()
	var late atomic.Bool
	hurry := time.AfterFunc(startTimeout, func() { late.Store(true); command.Process.Kill() })
	for lines := bufio.NewScanner(stdout); control == "" && lines.Scan(); {
		if address, found := strings.CutPrefix(lines.Text(), "broker-sim control: "); found {
			control = address
		}
	}
	hurry.Stop()
	if late.Load() {
		fmt.Fprintf(os.Stderr, "%s is not ready after %s\n", strings.Join(words, " "), startTimeout)
		return 2
	}
	if control == "" {
		fmt.Fprintf(os.Stderr, "%s ended before it was ready; %s\n", strings.Join(words, " "), install)
		return 2
	}
	return m.Run()
}

// Options of a cluster; what is not set is as in POST /v1/clusters, but that groups form at once.
type Options struct {
	Brokers   int               `json:"brokers,omitempty"`
	AsVersion string            `json:"as_version,omitempty"` // "3.4" to "4.4"
	Clock     string            `json:"clock,omitempty"`      // "real", "manual", "scaled:10"
	Topics    map[string]int    `json:"-"`                    // partitions by name
	Config    map[string]string `json:"config,omitempty"`     // by Kafka's names

	// TopicConfigs are settings by Kafka's names, by topic; a topic that Topics does not name has one partition.
	TopicConfigs map[string]map[string]string `json:"-"`

	// InternalTopics says when __consumer_offsets and the other internal topics are created: "at-start" (the default here), or "on-demand"
	// as in Kafka, where the first client that needs one is told COORDINATOR_NOT_AVAILABLE and asks again.
	InternalTopics string `json:"internal_topics,omitempty"`

	SecurityProtocol string            `json:"security_protocol,omitempty"` // "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
	Users            map[string]string `json:"users,omitempty"`             // passwords by user name, for SASL
}

// created is what POST /v1/clusters takes of the options.
func (o Options) created() any {
	topics := map[string]map[string]any{}
	for name, partitions := range o.Topics {
		topics[name] = map[string]any{"partitions": partitions}
	}
	for name, configs := range o.TopicConfigs {
		if topics[name] == nil {
			topics[name] = map[string]any{"partitions": 1}
		}
		for key, value := range configs {
			topics[name][key] = value
		}
	}
	return struct {
		Options
		Topics map[string]map[string]any `json:"topics,omitempty"`
	}{o, topics}
}

// Params of an operation: the query of a GET or DELETE, the body of a POST or PUT.
type Params map[string]any

// Cluster is a virtual cluster of the process. Its methods end the test where something can't be done or does not come.
type Cluster struct {
	t  testing.TB
	ID string
	// Bootstrap has one address for each broker, as Go's clients take them; Python and Java have them in one string.
	Bootstrap []string
	// CA is the certificate authority that clients trust, in PEM; "" without TLS.
	CA string
}

// New starts a cluster for a test, and stops it behind the test.
func New(t testing.TB, options Options) *Cluster {
	t.Helper()
	config := map[string]string{"group.initial.rebalance.delay.ms": "0"}
	for name, value := range options.Config {
		config[name] = value
	}
	options.Config = config
	if options.InternalTopics == "" {
		options.InternalTopics = "at-start"
	}
	var made struct{ ID, Bootstrap, CA string }
	if err := call("POST", "/clusters", options.created(), &made); err != nil {
		t.Fatal(err)
	}
	kafka := &Cluster{t, made.ID, strings.Split(made.Bootstrap, ","), made.CA}
	t.Cleanup(func() {
		if t.Failed() {
			if history := kafka.RecentHistory(); strings.TrimSpace(history) != "" {
				t.Log("\n" + history)
			}
		}
		kafka.Do("DELETE", "", nil, nil)
	})
	return kafka
}

// Error is what the control plane refused, or waited for in vain.
type Error struct {
	Status int
	Kind   string // UsageError, NotThere, WaitTimeout, NeverHit, KafkaError, ...
	Text   string `json:"error"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d): %s", e.Kind, e.Status, e.Text) }

// Try does any operation of the control plane on the cluster: kafka.Try("POST", "/brokers/2/down", nil, nil).
func (c *Cluster) Try(method, path string, params Params, answer any) error {
	return call(method, "/clusters/"+c.ID+path, params, answer)
}

// Do is Try for what must not fail.
func (c *Cluster) Do(method, path string, params Params, answer any) {
	c.t.Helper()
	if err := c.Try(method, path, params, answer); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
}

func call[P any](method, path string, params P, answer any) error {
	target := control + "/v1" + path
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if method == "GET" || method == "DELETE" {
		var query map[string]any
		json.Unmarshal(body, &query)
		values := url.Values{}
		for name, value := range query {
			values.Set(name, fmt.Sprint(value))
		}
		target, body = target+"?"+values.Encode(), nil
	} else if string(body) == "null" {
		body = []byte("{}")
	}
	request, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	told, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		failed := &Error{Status: response.StatusCode}
		if json.Unmarshal(told, failed) != nil {
			failed.Text = string(told)
		}
		return failed
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(told, answer)
}

// Fill appends records to a topic, spread over its partitions.
func (c *Cluster) Fill(topic string, records int) {
	c.t.Helper()
	c.Do("POST", "/topics/"+url.PathEscape(topic)+"/records", Params{"records": records}, nil)
}

// Group is a consumer group as its coordinator knows it.
type Group struct {
	State      string
	Generation int
	Members    []struct {
		MemberID string `json:"member_id"`
		ClientID string `json:"client_id"`
	}
	Coordinator int
	Offsets     map[string]int64 // by partition, "orders-0"
}

// Group tells how a group stands.
func (c *Cluster) Group(name string) (group Group) {
	c.t.Helper()
	c.Do("GET", groupPath(name), nil, &group)
	return group
}

// AwaitStable waits until a group is stable with so many members; a deadline that passes tells the group's history.
func (c *Cluster) AwaitStable(name string, members int, timeout time.Duration) (group Group) {
	c.t.Helper()
	c.Do("GET", groupPath(name)+"/wait", Params{"state": "Stable", "members": members, "timeout": timeout.String()}, &group)
	return group
}

// AwaitReading waits as AwaitStable, and until every assigned partition was fetched by its owner: what is sent from then on is delivered,
// whatever auto.offset.reset is.
func (c *Cluster) AwaitReading(name string, members int, timeout time.Duration) (group Group) {
	c.t.Helper()
	c.Do("GET", groupPath(name)+"/wait", Params{"state": "Stable", "members": members, "reading": true, "timeout": timeout.String()}, &group)
	return group
}

// Explain tells in words why a group rebalanced, who held it up, and how it ended.
func (c *Cluster) Explain(group string) string {
	c.t.Helper()
	var told struct{ Text string }
	c.Do("GET", groupPath(group)+"/explain", nil, &told)
	return told.Text
}

func groupPath(name string) string { return "/groups/" + url.PathEscape(name) }

// RecentHistory returns the recent history of every group, and the unanswered requests, as text.
func (c *Cluster) RecentHistory() string {
	c.t.Helper()
	var told struct{ Text string }
	c.Do("GET", "/journal/recent", nil, &told)
	return told.Text
}

// AwaitAnswer waits until a request of that API for that group was answered with that error; NONE: with none.
func (c *Cluster) AwaitAnswer(api, group, failure string) {
	c.t.Helper()
	c.Do("GET", "/journal/next", Params{"api": api, "group": group, "error": failure}, nil)
}

// Request is a request that a broker received.
type Request struct {
	API      string
	Version  int
	ClientID string `json:"client_id"`
	Group    string
	Topics   []string       // partitions that it names, "orders-0"
	Body     map[string]any // Kafka's field names in snake_case
	Answered bool
	Error    string         // of the response, by Kafka's name; "" without one
	Answer   map[string]any // the body of the response
}

// Requests returns the requests of an API that the brokers received, the oldest first; selectors are those of a rule, as in
// Params{"client_id": "app-1"}.
func (c *Cluster) Requests(api string, selectors Params) []Request {
	c.t.Helper()
	return c.received("", api, selectors, Params{"limit": 10000})
}

// AwaitRequests waits until there are so many of these requests that are answered; an error lists what was received instead.
func (c *Cluster) AwaitRequests(count int, api string, selectors Params, timeout time.Duration) []Request {
	c.t.Helper()
	return c.received("/wait", api, selectors, Params{"limit": 10000, "count": count, "answered": true, "timeout": timeout.String()})
}

func (c *Cluster) received(path, api string, selectors, params Params) []Request {
	c.t.Helper()
	for name, value := range selectors {
		params[name] = value
	}
	params["api"] = api
	var told struct{ Requests []Request }
	c.Do("GET", "/requests"+path, params, &told)
	return told.Requests
}

// Advance lets time pass on a manual clock, and tells which timers fired; members not named in expire stay alive.
func (c *Cluster) Advance(by time.Duration, expire ...string) []string {
	c.t.Helper()
	var told struct{ Fired []string }
	c.Do("POST", "/clock/advance", Params{"by": by.Seconds(), "expire": append([]string{}, expire...)}, &told)
	return told.Fired
}

// OffsetsLog names the partition of __consumer_offsets in which a group lives.
func OffsetsLog(group string) string { return "offsets(" + group + ")" }

// State is a lasting state of a log partition; it ends with Heal, or with the test.
type State struct {
	kafka *Cluster
	path  string
	id    int
}

// SetState puts a log partition ("orders-0", OffsetsLog(group)) into a state, with its arguments if it has any.
func (c *Cluster) SetState(log, state string, arguments Params) *State {
	c.t.Helper()
	params := Params{"state": state}
	for name, value := range arguments {
		params[name] = value
	}
	var told struct{ States []struct{ ID int } }
	path := "/logs/" + url.PathEscape(log)
	c.Do("PUT", path+"/state", params, &told)
	return &State{c, path, told.States[len(told.States)-1].ID}
}

// AwaitPending waits until so many requests wait for the log.
func (s *State) AwaitPending(requests int) {
	s.kafka.t.Helper()
	s.kafka.Do("GET", s.path+"/pending", Params{"pending": requests}, nil)
}

// Heal ends the state; no harm where it has ended.
func (s *State) Heal() {
	s.kafka.t.Helper()
	s.kafka.Do("DELETE", s.path+"/state", Params{"id": s.id}, nil)
}

// Fault is a rule on requests.
type Fault struct {
	kafka   *Cluster
	path    string
	removed atomic.Bool
}

// AddFault installs a rule: Params{"api": "OffsetCommit", "group": "billing", "drop": true, "times": 1}. A rule that is
// still there at the end of the test and never hit fails the test.
func (c *Cluster) AddFault(rule Params) *Fault {
	c.t.Helper()
	var told struct{ ID int }
	c.Do("POST", "/faults", rule, &told)
	fault := &Fault{kafka: c, path: fmt.Sprint("/faults/", told.ID)}
	c.t.Cleanup(func() {
		if err := fault.Remove(); err != nil {
			c.t.Error(err)
		}
	})
	return fault
}

// AwaitHits waits until the rule has hit that often.
func (f *Fault) AwaitHits(hits int) {
	f.kafka.t.Helper()
	f.kafka.Do("GET", f.path+"/hits", Params{"hits": hits}, nil)
}

// Remove ends the rule; an error tells that it never hit.
func (f *Fault) Remove() error {
	if f.removed.Swap(true) {
		return nil
	}
	return f.kafka.Try("DELETE", f.path, nil, nil)
}
