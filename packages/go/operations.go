// Written by docs/generate.py from docs/openapi.json. DO NOT EDIT.

package brokersim

import "time"

// Broker: a broker of the cluster.
type Broker struct {
	Broker int64  `json:"broker"`
	Host   string `json:"host"`
	Port   int64  `json:"port"`
	Rack   string `json:"rack"`
	Alive  bool   `json:"alive"`
	Leads  int64  `json:"leads"`
}

// ClockInfo: the time that the brokers live in; next_timer has due_ms and, in words, what it is for.
type ClockInfo struct {
	Mode      string         `json:"mode"`
	Rate      float64        `json:"rate"`
	NowMs     int64          `json:"now_ms"`
	NextTimer map[string]any `json:"next_timer"`
}

// ClusterInfo: a virtual cluster of this process; listeners: the bootstrap address of each by name; ca: the
// certificate authority that its clients trust, in PEM.
type ClusterInfo struct {
	ID               string            `json:"id"`
	Bootstrap        string            `json:"bootstrap"`
	Listeners        map[string]string `json:"listeners"`
	Brokers          int64             `json:"brokers"`
	AsVersion        string            `json:"as_version"`
	SecurityProtocol string            `json:"security_protocol"`
	CA               string            `json:"ca"`
	Clock            string            `json:"clock"`
	Topics           []string          `json:"topics"`
}

// Delivery: one delivery of a record; end: accepted, released, rejected, gap, expired, session closed, ...;
// empty while the member has it.
type Delivery struct {
	Member  string `json:"member"`
	TsMs    int64  `json:"ts_ms"`
	Count   int64  `json:"count"`
	End     string `json:"end"`
	EndedMs *int64 `json:"ended_ms"`
	Becomes string `json:"becomes"`
	Renewed int64  `json:"renewed"`
	Letter  string `json:"letter"`
}

// Entry: a request of a recorded order; members are called m1, m2, .. in the order in which they appear.
type Entry struct {
	N        int64    `json:"n"`
	API      string   `json:"api"`
	ClientID string   `json:"client_id"`
	Group    string   `json:"group"`
	Member   string   `json:"member"`
	Topics   []string `json:"topics"`
}

// FaultInfo: a rule on requests: in words and as the parameters that make it, its hits, and the requests that it
// hangs or delays now.
type FaultInfo struct {
	ID      int64          `json:"id"`
	Text    string         `json:"text"`
	Rule    map[string]any `json:"rule"`
	Hits    int64          `json:"hits"`
	Spent   bool           `json:"spent"`
	Removed bool           `json:"removed"`
	Waiting []string       `json:"waiting"`
}

// GroupInfo: a consumer group as its coordinator knows it; by partition, as in orders-0: committed offsets, lag
// (negative where one is beyond the log's end) and how much of it is deleted from the log; unassigned:
// subscribed, but assigned to no member.
type GroupInfo struct {
	Group       string           `json:"group"`
	State       string           `json:"state"`
	Generation  int64            `json:"generation"`
	Leader      string           `json:"leader"`
	Members     []Member         `json:"members"`
	Coordinator *int64           `json:"coordinator"`
	Log         string           `json:"log"`
	Offsets     map[string]int64 `json:"offsets"`
	Lag         map[string]int64 `json:"lag"`
	Deleted     map[string]int64 `json:"deleted"`
	Unassigned  []string         `json:"unassigned"`
}

// Hanging: a transaction that is open in a partition and that no coordinator knows; last_ms: when its producer
// wrote last.
type Hanging struct {
	Log              string `json:"log"`
	ProducerID       int64  `json:"producer_id"`
	Epoch            int64  `json:"epoch"`
	FirstOffset      int64  `json:"first_offset"`
	LastMs           int64  `json:"last_ms"`
	LastStableOffset int64  `json:"last_stable_offset"`
	HighWatermark    int64  `json:"high_watermark"`
}

// Hold: what is held back at the brokers: which requests, and those that wait, in the order in which they came.
type Hold struct {
	ID      int64    `json:"id"`
	Text    string   `json:"text"`
	Ended   bool     `json:"ended"`
	Waiting []string `json:"waiting"`
}

// Lock: records first to last of a partition that a share group's member has; until_ms: when the lock ends.
type Lock struct {
	Log        string `json:"log"`
	First      int64  `json:"first"`
	Last       int64  `json:"last"`
	MemberID   string `json:"member_id"`
	Deliveries int64  `json:"deliveries"`
	UntilMs    int64  `json:"until_ms"`
}

// Log: the present state of a log partition.
type Log struct {
	Log            string      `json:"log"`
	Leader         int64       `json:"leader"`
	LeaderEpoch    int64       `json:"leader_epoch"`
	Replicas       []int64     `json:"replicas"`
	ISR            []int64     `json:"isr"`
	LogStartOffset int64       `json:"log_start_offset"`
	HighWatermark  int64       `json:"high_watermark"`
	LogEndOffset   int64       `json:"log_end_offset"`
	States         []StateInfo `json:"states"`
}

// Member: a member of a group; deferred: JoinGroup or SyncGroup if that request of it is deferred.
type Member struct {
	MemberID           string             `json:"member_id"`
	ClientID           string             `json:"client_id"`
	ClientHost         string             `json:"client_host"`
	InstanceID         string             `json:"instance_id"`
	SessionTimeoutMs   int64              `json:"session_timeout_ms"`
	RebalanceTimeoutMs int64              `json:"rebalance_timeout_ms"`
	Deferred           string             `json:"deferred"`
	Leader             bool               `json:"leader"`
	Topics             []string           `json:"topics"`
	Assignment         map[string][]int64 `json:"assignment"`
	Worker             map[string]any     `json:"worker"`
	Tasks              map[string]any     `json:"tasks"`
}

// RecordHeaders: an entry.
type RecordHeaders struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

// Record: a record of a topic; producer_id: -1 without an idempotent producer.
type Record struct {
	Partition     int64           `json:"partition"`
	Offset        int64           `json:"offset"`
	TimestampMs   int64           `json:"timestamp_ms"`
	Key           *string         `json:"key"`
	Value         *string         `json:"value"`
	Headers       []RecordHeaders `json:"headers"`
	ProducerID    int64           `json:"producer_id"`
	Transactional bool            `json:"transactional"`
}

// Replay: how far a replay has come: the entries that have passed, the next one, the requests that wait;
// diverged: what came in its place.
type Replay struct {
	Position int64    `json:"position"`
	Expected string   `json:"expected"`
	Waiting  []string `json:"waiting"`
	Ended    bool     `json:"ended"`
	Diverged string   `json:"diverged"`
}

// Request: a request that a broker received; topics: partitions that it names; answered: whether a response was
// sent, or can't be any more; answer: the body of the response.
type Request struct {
	Request         int64          `json:"request"`
	TsMs            int64          `json:"ts_ms"`
	API             string         `json:"api"`
	Version         int64          `json:"version"`
	Broker          int64          `json:"broker"`
	ClientID        string         `json:"client_id"`
	ClientHost      string         `json:"client_host"`
	Group           string         `json:"group"`
	Member          string         `json:"member"`
	TransactionalID string         `json:"transactional_id"`
	Topics          []string       `json:"topics"`
	Body            map[string]any `json:"body"`
	Answered        bool           `json:"answered"`
	Error           string         `json:"error"`
	TookMs          *int64         `json:"took_ms"`
	Answer          map[string]any `json:"answer"`
}

// ScenarioResults: an entry.
type ScenarioResults struct {
	Held  bool   `json:"held"`
	Text  string `json:"text"`
	Where string `json:"where"`
}

// ScenarioInfo: a scenario file that runs on the cluster; verdict: held, broken, late (the condition of a step
// timed out), error (a step can't be done), cancelled, null while it runs; done: the steps that are done;
// waiting: what it waits for.
type ScenarioInfo struct {
	ID       int64             `json:"id"`
	Name     string            `json:"name"`
	Running  bool              `json:"running"`
	Verdict  string            `json:"verdict"`
	Steps    []string          `json:"steps"`
	Done     []string          `json:"done"`
	Waiting  string            `json:"waiting"`
	Results  []ScenarioResults `json:"results"`
	Error    string            `json:"error"`
	Progress []string          `json:"progress"`
}

// ShareGroupPartitions: an entry.
type ShareGroupPartitions struct {
	StartOffset int64 `json:"start_offset"`
	NextOffset  int64 `json:"next_offset"`
	InFlight    int64 `json:"in_flight"`
	Locked      int64 `json:"locked"`
	Backlog     int64 `json:"backlog"`
	Loaded      bool  `json:"loaded"`
}

// ShareGroup: a share group as the leaders of its partitions know it; start_offset -1: it has read nothing
// there.
type ShareGroup struct {
	Group      string                          `json:"group"`
	State      string                          `json:"state"`
	Epoch      int64                           `json:"epoch"`
	Partitions map[string]ShareGroupPartitions `json:"partitions"`
	Locks      []Lock                          `json:"locks"`
}

// StateInfo: a lasting state of a log partition.
type StateInfo struct {
	ID     int64          `json:"id"`
	Log    string         `json:"log"`
	State  string         `json:"state"`
	Args   map[string]any `json:"args"`
	Active bool           `json:"active"`
}

// TopicInfo: a topic.
type TopicInfo struct {
	Topic             string `json:"topic"`
	Partitions        int64  `json:"partitions"`
	ReplicationFactor int64  `json:"replication_factor"`
	Records           int64  `json:"records"`
	Internal          bool   `json:"internal"`
}

// Transaction: a transactional id as its coordinator knows it; partitions: those of its transaction that have no
// marker yet, as in orders-0.
type Transaction struct {
	TransactionalID string   `json:"transactional_id"`
	State           string   `json:"state"`
	ProducerID      int64    `json:"producer_id"`
	Epoch           int64    `json:"epoch"`
	Partitions      []string `json:"partitions"`
	TimeoutMs       *int64   `json:"timeout_ms"`
	Coordinator     *int64   `json:"coordinator"`
	Log             string   `json:"log"`
}

// BrokerListAnswer: an entry.
type BrokerListAnswer struct {
	Brokers []Broker `json:"brokers"`
}

// BrokerRestartAllAnswer: an entry.
type BrokerRestartAllAnswer struct {
	Brokers []Broker `json:"brokers"`
}

// ClockAdvanceAnswer: an entry.
type ClockAdvanceAnswer struct {
	NowMs int64    `json:"now_ms"`
	Fired []string `json:"fired"`
}

// ClusterListAnswer: an entry.
type ClusterListAnswer struct {
	Clusters []ClusterInfo `json:"clusters"`
}

// ClusterDeleteAnswer: an entry.
type ClusterDeleteAnswer struct {
	Deleted string `json:"deleted"`
}

// GroupListAnswer: an entry.
type GroupListAnswer struct {
	Groups []GroupInfo `json:"groups"`
}

// GroupExplainAnswer: an entry.
type GroupExplainAnswer struct {
	Group string `json:"group"`
	Text  string `json:"text"`
}

// GroupTimelineAnswer: an entry.
type GroupTimelineAnswer struct {
	Group string `json:"group"`
	Text  string `json:"text"`
	SVG   string `json:"svg"`
	HTML  string `json:"html"`
}

// GroupCommitAnswer: an entry.
type GroupCommitAnswer struct {
	Group   string           `json:"group"`
	Seq     int64            `json:"seq"`
	Offsets map[string]int64 `json:"offsets"`
}

// GroupProbeAnswer: an entry.
type GroupProbeAnswer struct {
	Ok    bool   `json:"ok"`
	Error string `json:"error"`
	Log   string `json:"log"`
}

// ShareExpireAnswer: an entry.
type ShareExpireAnswer struct {
	Group string `json:"group"`
	Ended []Lock `json:"ended"`
}

// ShareDeliveriesAnswer: an entry.
type ShareDeliveriesAnswer struct {
	Group      string     `json:"group"`
	Log        string     `json:"log"`
	Offset     int64      `json:"offset"`
	Deliveries []Delivery `json:"deliveries"`
}

// TransactionListAnswer: an entry.
type TransactionListAnswer struct {
	Transactions []Transaction `json:"transactions"`
}

// TransactionExplainAnswer: an entry.
type TransactionExplainAnswer struct {
	TransactionalID string `json:"transactional_id"`
	Text            string `json:"text"`
}

// TransactionHangingAnswer: an entry.
type TransactionHangingAnswer struct {
	Hanging []Hanging `json:"hanging"`
}

// TransactionAbortHangingAnswer: an entry.
type TransactionAbortHangingAnswer struct {
	Log              string `json:"log"`
	LastStableOffset int64  `json:"last_stable_offset"`
	HighWatermark    int64  `json:"high_watermark"`
}

// JournalRecentAnswer: an entry.
type JournalRecentAnswer struct {
	Text string `json:"text"`
}

// StateListAnswer: an entry.
type StateListAnswer struct {
	States []StateInfo `json:"states"`
}

// LogWaitAnswer: an entry.
type LogWaitAnswer struct {
	Log     string           `json:"log"`
	Pending []map[string]any `json:"pending"`
}

// LeaderPreferAnswer: an entry.
type LeaderPreferAnswer struct {
	Changed int64 `json:"changed"`
}

// RequestListAnswer: an entry.
type RequestListAnswer struct {
	Requests []Request `json:"requests"`
	Received int64     `json:"received"`
}

// RequestWaitAnswer: an entry.
type RequestWaitAnswer struct {
	Requests []Request `json:"requests"`
	Received int64     `json:"received"`
}

// FaultAddAnswer: an entry.
type FaultAddAnswer struct {
	ID      int64          `json:"id"`
	Text    string         `json:"text"`
	Rule    map[string]any `json:"rule"`
	Hits    int64          `json:"hits"`
	Spent   bool           `json:"spent"`
	Removed bool           `json:"removed"`
	Waiting []string       `json:"waiting"`
	Note    string         `json:"note"`
}

// FaultListAnswer: an entry.
type FaultListAnswer struct {
	Faults []FaultInfo `json:"faults"`
}

// FaultClearAnswer: an entry.
type FaultClearAnswer struct {
	Removed []FaultInfo `json:"removed"`
}

// OrderHoldAnswer: an entry.
type OrderHoldAnswer struct {
	ID      int64    `json:"id"`
	Text    string   `json:"text"`
	Ended   bool     `json:"ended"`
	Waiting []string `json:"waiting"`
	Note    string   `json:"note"`
}

// OrderListAnswer: an entry.
type OrderListAnswer struct {
	Holds []Hold `json:"holds"`
}

// OrderStepAnswer: an entry.
type OrderStepAnswer struct {
	ID      int64    `json:"id"`
	Text    string   `json:"text"`
	Ended   bool     `json:"ended"`
	Waiting []string `json:"waiting"`
	Stepped string   `json:"stepped"`
}

// OrderRecordAnswer: an entry.
type OrderRecordAnswer struct {
	Entries []Entry `json:"entries"`
}

// OrderRecordedAnswer: an entry.
type OrderRecordedAnswer struct {
	Entries []Entry `json:"entries"`
}

// OrderStopAnswer: an entry.
type OrderStopAnswer struct {
	Entries []Entry `json:"entries"`
}

// TopicListAnswer: an entry.
type TopicListAnswer struct {
	Topics []TopicInfo `json:"topics"`
}

// TopicDeleteAnswer: an entry.
type TopicDeleteAnswer struct {
	Deleted string `json:"deleted"`
}

// TopicRecordsAnswer: an entry.
type TopicRecordsAnswer struct {
	Records []Record `json:"records"`
	More    bool     `json:"more"`
}

// ScenarioListAnswer: an entry.
type ScenarioListAnswer struct {
	Scenarios []ScenarioInfo `json:"scenarios"`
}

// BrokerList: list all brokers: address, rack, whether they are alive, number of led partitions.
func (a *API) BrokerList() (answer BrokerListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/brokers", p, &answer)
	return answer, err
}

// BrokerGet: show a broker: address, rack, whether it is alive, number of led partitions.
func (a *API) BrokerGet(broker int) (answer Broker, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/brokers/"+escaped(broker), p, &answer)
	return answer, err
}

// BrokerDownParams are the optional parameters of [API.BrokerDown]; those that are pointers may be zero, as in Ptr(0).
type BrokerDownParams struct {
	// controlled shutdown: leaders move away first (default: only for a restart).
	Graceful bool
	// how long Metadata still lists the broker; Kafka: about 9 s (default: 0).
	NoticedAfter time.Duration
}

// BrokerDown: stop a broker: connections are reset, other replicas become leaders; it keeps its port.
func (a *API) BrokerDown(broker int, params BrokerDownParams) (answer Broker, err error) {
	p := parameters{}
	p.set("graceful", params.Graceful)
	p.set("noticed_after", params.NoticedAfter)
	err = a.call("POST", a.cluster+"/brokers/"+escaped(broker)+"/down", p, &answer)
	return answer, err
}

// BrokerUpParams are the optional parameters of [API.BrokerUp]; those that are pointers may be zero, as in Ptr(0).
type BrokerUpParams struct {
	// preferred: elect the first replica of every partition afterwards; one of preferred.
	Elect string
}

// BrokerUp: start a stopped broker on the same port.
func (a *API) BrokerUp(broker int, params BrokerUpParams) (answer Broker, err error) {
	p := parameters{}
	p.set("elect", params.Elect)
	err = a.call("POST", a.cluster+"/brokers/"+escaped(broker)+"/up", p, &answer)
	return answer, err
}

// BrokerRestartParams are the optional parameters of [API.BrokerRestart]; those that are pointers may be zero, as in Ptr(0).
type BrokerRestartParams struct {
	// controlled shutdown: leaders move away first (default: only for a restart).
	Graceful bool
}

// BrokerRestart: restart a broker; its coordinators load from their logs.
func (a *API) BrokerRestart(broker int, params BrokerRestartParams) (answer Broker, err error) {
	p := parameters{}
	p.set("graceful", params.Graceful)
	err = a.call("POST", a.cluster+"/brokers/"+escaped(broker)+"/restart", p, &answer)
	return answer, err
}

// BrokerAdvertise: advertise another address of a broker, as Kafka's advertised.listeners, from the next
// response on.
func (a *API) BrokerAdvertise(broker int, listener string) (answer Broker, err error) {
	p := parameters{}
	p["listener"] = listener
	err = a.call("POST", a.cluster+"/brokers/"+escaped(broker)+"/advertise", p, &answer)
	return answer, err
}

// BrokerRestartAllParams are the optional parameters of [API.BrokerRestartAll]; those that are pointers may be zero, as in Ptr(0).
type BrokerRestartAllParams struct {
	// send pending responses before the connections are closed.
	Graceful bool
}

// BrokerRestartAll: restart all brokers at the same time; every coordinator loads from its log.
func (a *API) BrokerRestartAll(params BrokerRestartAllParams) (answer BrokerRestartAllAnswer, err error) {
	p := parameters{}
	p.set("graceful", params.Graceful)
	err = a.call("POST", a.cluster+"/brokers/restart", p, &answer)
	return answer, err
}

// ClockGet: show the brokers' clock: mode, rate, time, next timer.
func (a *API) ClockGet() (answer ClockInfo, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/clock", p, &answer)
	return answer, err
}

// ClockAdvanceParams are the optional parameters of [API.ClockAdvance]; those that are pointers may be zero, as in Ptr(0).
type ClockAdvanceParams struct {
	// members that send no heartbeats meanwhile, by member id, instance id or client id.
	Expire []string
	// real time for the others to rejoin before a rebalance timeout passes (default: 10s).
	Wait time.Duration
}

// ClockAdvance: advance a manual clock: each timer fires at its deadline; connected members not named in expire
// stay alive.
func (a *API) ClockAdvance(by time.Duration, params ClockAdvanceParams) (answer ClockAdvanceAnswer, err error) {
	p := parameters{}
	p["by"] = milliseconds(by)
	p.set("expire", params.Expire)
	p.set("wait", params.Wait)
	err = a.call("POST", a.cluster+"/clock/advance", p, &answer)
	return answer, err
}

// ClusterList: list the virtual clusters of the process.
func (a *API) ClusterList() (answer ClusterListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", "/clusters", p, &answer)
	return answer, err
}

// ClusterCreateParams are the optional parameters of [API.ClusterCreate]; those that are pointers may be zero, as in Ptr(0).
type ClusterCreateParams struct {
	// id of the cluster (default: generated); letters, digits, dots, dashes.
	ID string
	// number of brokers.
	Brokers int
	// topic name: partitions (-1: num.partitions), or a map with partitions and settings.
	Topics map[string]any
	// the Kafka release to behave as.
	AsVersion string
	// settings by Kafka's names.
	Config map[string]any
	// what clients must do; one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.
	SecurityProtocol string
	// passwords by user name, for SASL.
	Users map[string]string
	// when __consumer_offsets and the other internal topics are created; one of on-demand, at-start.
	InternalTopics string
	// real, scaled:N or manual.
	Clock string
	// seed of the random numbers.
	Seed string
	// an included scenario whose cluster and topics it has; with scenario_file: the file's name.
	Scenario string
	// the text of a scenario file, whose cluster and topics it has.
	ScenarioFile string
	// name of its directory within the data directory (default: in memory).
	Data string
}

// ClusterCreate: start a virtual cluster on its own ports; of a scenario, parameters that are not their defaults
// replace the file's.
func (a *API) ClusterCreate(params ClusterCreateParams) (answer ClusterInfo, err error) {
	p := parameters{}
	p.set("id", params.ID)
	p.set("brokers", params.Brokers)
	p.set("topics", params.Topics)
	p.set("as_version", params.AsVersion)
	p.set("config", params.Config)
	p.set("security_protocol", params.SecurityProtocol)
	p.set("users", params.Users)
	p.set("internal_topics", params.InternalTopics)
	p.set("clock", params.Clock)
	p.set("seed", params.Seed)
	p.set("scenario", params.Scenario)
	p.set("scenario_file", params.ScenarioFile)
	p.set("data", params.Data)
	err = a.call("POST", "/clusters", p, &answer)
	return answer, err
}

// ClusterGet: show a virtual cluster: bootstrap address, release, clock, topics.
func (a *API) ClusterGet(cluster string) (answer ClusterInfo, err error) {
	p := parameters{}
	err = a.call("GET", "/clusters/"+escaped(cluster), p, &answer)
	return answer, err
}

// ClusterDelete: stop a virtual cluster; the cluster that the process was started for can't be stopped.
func (a *API) ClusterDelete(cluster string) (answer ClusterDeleteAnswer, err error) {
	p := parameters{}
	err = a.call("DELETE", "/clusters/"+escaped(cluster), p, &answer)
	return answer, err
}

// GroupList: list all groups with their states and members.
func (a *API) GroupList() (answer GroupListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/groups", p, &answer)
	return answer, err
}

// GroupGetParams are the optional parameters of [API.GroupGet]; those that are pointers may be zero, as in Ptr(0).
type GroupGetParams struct {
	// wait for this state; one of Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning,
	// Reconciling.
	Wait string
	// number of members.
	Members *int
	// this generation or a later one.
	Generation *int
	// committed offsets, these or later ones: orders-0=5,orders-1=7.
	Committed map[string]int
	// upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative
	// lag.
	LagBelow int
	// every assigned partition was fetched by its owner, so that records produced now are delivered.
	Reading bool
	// timeout, in real time.
	Timeout time.Duration
}

// GroupGet: show a group: state, generation, members with assignments, offsets, lag; with a condition, once it
// holds.
func (a *API) GroupGet(group string, params GroupGetParams) (answer GroupInfo, err error) {
	p := parameters{}
	p.set("wait", params.Wait)
	p.set("members", params.Members)
	p.set("generation", params.Generation)
	p.set("committed", params.Committed)
	p.set("lag_below", params.LagBelow)
	p.set("reading", params.Reading)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group), p, &answer)
	return answer, err
}

// GroupWaitParams are the optional parameters of [API.GroupWait]; those that are pointers may be zero, as in Ptr(0).
type GroupWaitParams struct {
	// the group's state; one of Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, Assigning,
	// Reconciling.
	State string
	// number of members.
	Members *int
	// this generation or a later one.
	Generation *int
	// committed offsets, these or later ones: orders-0=5,orders-1=7.
	Committed map[string]int
	// upper bound of the total lag (exclusive); also requires records, an owner for every partition, no negative
	// lag.
	LagBelow int
	// every assigned partition was fetched by its owner, so that records produced now are delivered.
	Reading bool
	// no member has that member id, instance id or client id.
	MemberGone string
	// timeout, in real time.
	Timeout time.Duration
}

// GroupWait: wait until all conditions hold for a group at the same time; the group may not exist yet.
func (a *API) GroupWait(group string, params GroupWaitParams) (answer GroupInfo, err error) {
	p := parameters{}
	p.set("state", params.State)
	p.set("members", params.Members)
	p.set("generation", params.Generation)
	p.set("committed", params.Committed)
	p.set("lag_below", params.LagBelow)
	p.set("reading", params.Reading)
	p.set("member_gone", params.MemberGone)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group)+"/wait", p, &answer)
	return answer, err
}

// GroupExplainParams are the optional parameters of [API.GroupExplain]; those that are pointers may be zero, as in Ptr(0).
type GroupExplainParams struct {
	// only this generation.
	Generation *int
}

// GroupExplain: explain in words why a group rebalanced, who delayed it, for how long, and how it ended.
func (a *API) GroupExplain(group string, params GroupExplainParams) (answer GroupExplainAnswer, err error) {
	p := parameters{}
	p.set("generation", params.Generation)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group)+"/explain", p, &answer)
	return answer, err
}

// GroupTimelineParams are the optional parameters of [API.GroupTimeline]; those that are pointers may be zero, as in Ptr(0).
type GroupTimelineParams struct {
	// text, or a picture; one of text, svg, html.
	Form string
	// width of the text, in characters.
	Width int
}

// GroupTimeline: draw a group's history: members as lanes, generations as bands, faults as marks.
func (a *API) GroupTimeline(group string, params GroupTimelineParams) (answer GroupTimelineAnswer, err error) {
	p := parameters{}
	p.set("form", params.Form)
	p.set("width", params.Width)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group)+"/timeline", p, &answer)
	return answer, err
}

// GroupTimelineSvgParams are the optional parameters of [API.GroupTimelineSvg]; those that are pointers may be zero, as in Ptr(0).
type GroupTimelineSvgParams struct {
	// text, or a picture; one of text, svg, html.
	Form string
	// width of the text, in characters.
	Width int
}

// GroupTimelineSvg: draw a group's history: members as lanes, generations as bands, faults as marks.
func (a *API) GroupTimelineSvg(group string, params GroupTimelineSvgParams) (answer string, err error) {
	p := parameters{}
	p.set("form", params.Form)
	p.set("width", params.Width)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group)+"/timeline.svg", p, &answer)
	return answer, err
}

// GroupTimelineHtmlParams are the optional parameters of [API.GroupTimelineHtml]; those that are pointers may be zero, as in Ptr(0).
type GroupTimelineHtmlParams struct {
	// text, or a picture; one of text, svg, html.
	Form string
	// width of the text, in characters.
	Width int
}

// GroupTimelineHtml: draw a group's history: members as lanes, generations as bands, faults as marks.
func (a *API) GroupTimelineHtml(group string, params GroupTimelineHtmlParams) (answer string, err error) {
	p := parameters{}
	p.set("form", params.Form)
	p.set("width", params.Width)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group)+"/timeline.html", p, &answer)
	return answer, err
}

// GroupCommitParams are the optional parameters of [API.GroupCommit]; those that are pointers may be zero, as in Ptr(0).
type GroupCommitParams struct {
	// accept a commit after this journal sequence number (default: the next commit).
	Since *int
	// timeout, in real time.
	Timeout time.Duration
}

// GroupCommit: wait for the next successful commit of a group; returns its offsets.
func (a *API) GroupCommit(group string, params GroupCommitParams) (answer GroupCommitAnswer, err error) {
	p := parameters{}
	p.set("since", params.Since)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/groups/"+escaped(group)+"/commit", p, &answer)
	return answer, err
}

// GroupProbeParams are the optional parameters of [API.GroupProbe]; those that are pointers may be zero, as in Ptr(0).
type GroupProbeParams struct {
	// allow a group or transactional id that does not exist yet.
	Ahead bool
	// timeout, in real time.
	Timeout time.Duration
}

// GroupProbe: check whether the group's coordinator accepts commits now, without affecting the group.
func (a *API) GroupProbe(group string, params GroupProbeParams) (answer GroupProbeAnswer, err error) {
	p := parameters{}
	p.set("ahead", params.Ahead)
	p.set("timeout", params.Timeout)
	err = a.call("POST", a.cluster+"/groups/"+escaped(group)+"/probe", p, &answer)
	return answer, err
}

// GroupRemoveMemberParams are the optional parameters of [API.GroupRemoveMember]; those that are pointers may be zero, as in Ptr(0).
type GroupRemoveMemberParams struct {
	// timeout, in real time.
	Timeout time.Duration
}

// GroupRemoveMember: remove a member from its group with LeaveGroup, as an admin client does.
func (a *API) GroupRemoveMember(group string, member string, params GroupRemoveMemberParams) (answer GroupInfo, err error) {
	p := parameters{}
	p.set("timeout", params.Timeout)
	err = a.call("DELETE", a.cluster+"/groups/"+escaped(group)+"/members/"+escaped(member), p, &answer)
	return answer, err
}

// ShareGet: show a share group: position in each partition, records left, and acquired records with their
// members.
func (a *API) ShareGet(group string) (answer ShareGroup, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/share-groups/"+escaped(group), p, &answer)
	return answer, err
}

// ShareExpireParams are the optional parameters of [API.ShareExpire]; those that are pointers may be zero, as in Ptr(0).
type ShareExpireParams struct {
	// the topic.
	Topic string
	// the partition, from 0.
	Partition *int
	// its member id or client id.
	Member string
}

// ShareExpire: expire acquisition locks of a share group now: all, or those of a topic, a partition or a member.
func (a *API) ShareExpire(group string, params ShareExpireParams) (answer ShareExpireAnswer, err error) {
	p := parameters{}
	p.set("topic", params.Topic)
	p.set("partition", params.Partition)
	p.set("member", params.Member)
	err = a.call("POST", a.cluster+"/share-groups/"+escaped(group)+"/expire", p, &answer)
	return answer, err
}

// ShareWaitLockedParams are the optional parameters of [API.ShareWaitLocked]; those that are pointers may be zero, as in Ptr(0).
type ShareWaitLockedParams struct {
	// its member id or client id.
	Member string
	// timeout, in real time.
	Timeout time.Duration
}

// ShareWaitLocked: wait until a member of a share group has acquired a record; the group may not exist yet.
func (a *API) ShareWaitLocked(group string, topic string, partition int, offset int, params ShareWaitLockedParams) (answer ShareGroup, err error) {
	p := parameters{}
	p["topic"] = topic
	p["partition"] = partition
	p["offset"] = offset
	p.set("member", params.Member)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/share-groups/"+escaped(group)+"/locked", p, &answer)
	return answer, err
}

// ShareWaitUnlockedParams are the optional parameters of [API.ShareWaitUnlocked]; those that are pointers may be zero, as in Ptr(0).
type ShareWaitUnlockedParams struct {
	// timeout, in real time.
	Timeout time.Duration
}

// ShareWaitUnlocked: wait until no member of a share group has an acquired record.
func (a *API) ShareWaitUnlocked(group string, params ShareWaitUnlockedParams) (answer ShareGroup, err error) {
	p := parameters{}
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/share-groups/"+escaped(group)+"/unlocked", p, &answer)
	return answer, err
}

// ShareWaitDeliveredParams are the optional parameters of [API.ShareWaitDelivered]; those that are pointers may be zero, as in Ptr(0).
type ShareWaitDeliveredParams struct {
	// number of times.
	Times int
	// timeout, in real time.
	Timeout time.Duration
}

// ShareWaitDelivered: wait until a record was delivered this often to a share group; the group may not exist
// yet.
func (a *API) ShareWaitDelivered(group string, topic string, partition int, offset int, params ShareWaitDeliveredParams) (answer ShareGroup, err error) {
	p := parameters{}
	p["topic"] = topic
	p["partition"] = partition
	p["offset"] = offset
	p.set("times", params.Times)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/share-groups/"+escaped(group)+"/delivered", p, &answer)
	return answer, err
}

// ShareDeliveries: list the recorded deliveries of a record: to which member, and how each ended.
func (a *API) ShareDeliveries(group string, topic string, partition int, offset int) (answer ShareDeliveriesAnswer, err error) {
	p := parameters{}
	p["topic"] = topic
	p["partition"] = partition
	p["offset"] = offset
	err = a.call("GET", a.cluster+"/share-groups/"+escaped(group)+"/deliveries", p, &answer)
	return answer, err
}

// TransactionList: list all transactional ids with their states, producer ids and epochs.
func (a *API) TransactionList() (answer TransactionListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/transactions", p, &answer)
	return answer, err
}

// TransactionGet: show a transactional id: state, producer id, epoch, and the partitions that have no marker
// yet.
func (a *API) TransactionGet(transactionalID string) (answer Transaction, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/transactions/"+escaped(transactionalID), p, &answer)
	return answer, err
}

// TransactionWaitParams are the optional parameters of [API.TransactionWait]; those that are pointers may be zero, as in Ptr(0).
type TransactionWaitParams struct {
	// its state; one of Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead.
	State string
	// this producer epoch or a later one.
	Epoch *int
	// timeout, in real time.
	Timeout time.Duration
}

// TransactionWait: wait until all conditions hold for a transactional id at the same time; it may not exist yet.
func (a *API) TransactionWait(transactionalID string, params TransactionWaitParams) (answer Transaction, err error) {
	p := parameters{}
	p.set("state", params.State)
	p.set("epoch", params.Epoch)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/transactions/"+escaped(transactionalID)+"/wait", p, &answer)
	return answer, err
}

// TransactionExplain: explain in words how the transactions of an id ended, by whom, how long each took, and
// what it delayed.
func (a *API) TransactionExplain(transactionalID string) (answer TransactionExplainAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/transactions/"+escaped(transactionalID)+"/explain", p, &answer)
	return answer, err
}

// TransactionAbortParams are the optional parameters of [API.TransactionAbort]; those that are pointers may be zero, as in Ptr(0).
type TransactionAbortParams struct {
	// timeout, in real time.
	Timeout time.Duration
}

// TransactionAbort: fence the producer of a transactional id, and abort its transaction, as Admin.fenceProducers
// does.
func (a *API) TransactionAbort(transactionalID string, params TransactionAbortParams) (answer Transaction, err error) {
	p := parameters{}
	p.set("timeout", params.Timeout)
	err = a.call("POST", a.cluster+"/transactions/"+escaped(transactionalID)+"/abort", p, &answer)
	return answer, err
}

// TransactionHanging: list hanging transactions of a partition: open, and unknown to the transaction
// coordinator.
func (a *API) TransactionHanging() (answer TransactionHangingAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/hanging-transactions", p, &answer)
	return answer, err
}

// TransactionAbortHangingParams are the optional parameters of [API.TransactionAbortHanging]; those that are pointers may be zero, as in Ptr(0).
type TransactionAbortHangingParams struct {
	// timeout, in real time.
	Timeout time.Duration
}

// TransactionAbortHanging: write an abort marker for a producer's open transaction in a partition, as kafka-
// transactions abort does.
func (a *API) TransactionAbortHanging(log string, producerID int, params TransactionAbortHangingParams) (answer TransactionAbortHangingAnswer, err error) {
	p := parameters{}
	p.set("timeout", params.Timeout)
	err = a.call("POST", a.cluster+"/logs/"+escaped(log)+"/transactions/"+escaped(producerID)+"/abort", p, &answer)
	return answer, err
}

// JournalReadParams are the optional parameters of [API.JournalRead]; those that are pointers may be zero, as in Ptr(0).
type JournalReadParams struct {
	// only events after this sequence number.
	Since int
	// maximum number of events; the latest are returned.
	Limit int
	// only this kind of event; one of connection, request, response, fault_added, fault, fault_removed, group,
	// epochs, timer, append, committed, offsets, offsets_deleted, pending_offsets, transaction, marker,
	// last_stable_offset, share_partition, delivery, topic, state, leader, data_loss, broker, cluster, load, clock,
	// order, client, mark.
	Event string
	// only events of requests of this API; * matches anything.
	API string
	// only events of this group; * matches anything.
	Group string
	// only events of this request.
	Request int
}

// JournalRead: list events, oldest first; over HTTP one JSON object per line.
func (a *API) JournalRead(params JournalReadParams) (answer []map[string]any, err error) {
	p := parameters{}
	p.set("since", params.Since)
	p.set("limit", params.Limit)
	p.set("event", params.Event)
	p.set("api", params.API)
	p.set("group", params.Group)
	p.set("request", params.Request)
	err = a.call("GET", a.cluster+"/journal", p, lines(&answer))
	return answer, err
}

// JournalNextParams are the optional parameters of [API.JournalNext]; those that are pointers may be zero, as in Ptr(0).
type JournalNextParams struct {
	// this kind of event (default: response); one of connection, request, response, fault_added, fault,
	// fault_removed, group, epochs, timer, append, committed, offsets, offsets_deleted, pending_offsets,
	// transaction, marker, last_stable_offset, share_partition, delivery, topic, state, leader, data_loss, broker,
	// cluster, load, clock, order, client, mark.
	Event string
	// a request of this API, or its response.
	API string
	// it is about this group.
	Group string
	// the response has this error; NONE: success.
	Error string
	// only events after this sequence number (default: all).
	Since int
	// timeout, in real time.
	Timeout time.Duration
}

// JournalNext: wait for the first matching event and return it; the event of an answered request contains the
// response.
func (a *API) JournalNext(params JournalNextParams) (answer map[string]any, err error) {
	p := parameters{}
	p.set("event", params.Event)
	p.set("api", params.API)
	p.set("group", params.Group)
	p.set("error", params.Error)
	p.set("since", params.Since)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/journal/next", p, &answer)
	return answer, err
}

// JournalRecent: describe the recent history of every group, refused clients and unanswered requests: for a
// failed test's report.
func (a *API) JournalRecent() (answer JournalRecentAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/journal/recent", p, &answer)
	return answer, err
}

// JournalMark: write a note into the journal; timelines show it.
func (a *API) JournalMark(text string) (answer map[string]any, err error) {
	p := parameters{}
	p["text"] = text
	err = a.call("POST", a.cluster+"/journal/marks", p, &answer)
	return answer, err
}

// StateSetParams are the optional parameters of [API.StateSet]; those that are pointers may be zero, as in Ptr(0).
type StateSetParams struct {
	// clear the state after this time on the broker's clock.
	For time.Duration
	// slow: delay of each append until it is committed.
	Latency time.Duration
	// slow: maximum random additional delay.
	Jitter time.Duration
	// stuck: when the non-fetching followers leave the ISR.
	ISRShrinksAfter time.Duration
	// full: remaining space in bytes.
	FreeBytes *int
	// clear a state that excludes this one.
	Replace bool
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// StateSet: set a fault state of a log partition; its leader and its group coordinator behave accordingly until
// it is cleared.
func (a *API) StateSet(log string, state string, params StateSetParams) (answer Log, err error) {
	p := parameters{}
	p["state"] = state
	p.set("for", params.For)
	p.set("latency", params.Latency)
	p.set("jitter", params.Jitter)
	p.set("isr_shrinks_after", params.ISRShrinksAfter)
	p.set("free_bytes", params.FreeBytes)
	p.set("replace", params.Replace)
	p.set("ahead", params.Ahead)
	err = a.call("PUT", a.cluster+"/logs/"+escaped(log)+"/state", p, &answer)
	return answer, err
}

// StateHealParams are the optional parameters of [API.StateHeal]; those that are pointers may be zero, as in Ptr(0).
type StateHealParams struct {
	// only this state (default: all states of the log); one of stuck, under_min_isr, slow, storage_error, full,
	// readonly, too_large, not_leader, fenced, no_leader, loading, online.
	State string
	// only the state with this id; no error if it has already ended.
	ID int
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// StateHeal: clear the fault states of a log partition; pending requests continue.
func (a *API) StateHeal(log string, params StateHealParams) (answer Log, err error) {
	p := parameters{}
	p.set("state", params.State)
	p.set("id", params.ID)
	p.set("ahead", params.Ahead)
	err = a.call("DELETE", a.cluster+"/logs/"+escaped(log)+"/state", p, &answer)
	return answer, err
}

// StateList: list the active fault states of all log partitions.
func (a *API) StateList() (answer StateListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/states", p, &answer)
	return answer, err
}

// LogGetParams are the optional parameters of [API.LogGet]; those that are pointers may be zero, as in Ptr(0).
type LogGetParams struct {
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// LogGet: show a log partition: leader, replicas, offsets, fault states.
func (a *API) LogGet(log string, params LogGetParams) (answer Log, err error) {
	p := parameters{}
	p.set("ahead", params.Ahead)
	err = a.call("GET", a.cluster+"/logs/"+escaped(log), p, &answer)
	return answer, err
}

// LogFillParams are the optional parameters of [API.LogFill]; those that are pointers may be zero, as in Ptr(0).
type LogFillParams struct {
	// size of each value in bytes (default: a short text).
	ValueBytes *int
}

// LogFill: append records to a partition, as a producer does.
func (a *API) LogFill(log string, records int, params LogFillParams) (answer Log, err error) {
	p := parameters{}
	p["records"] = records
	p.set("value_bytes", params.ValueBytes)
	err = a.call("POST", a.cluster+"/logs/"+escaped(log)+"/records", p, &answer)
	return answer, err
}

// LogWaitParams are the optional parameters of [API.LogWait]; those that are pointers may be zero, as in Ptr(0).
type LogWaitParams struct {
	// number of pending requests.
	Pending int
	// allow a group or transactional id that does not exist yet.
	Ahead bool
	// timeout, in real time.
	Timeout time.Duration
}

// LogWait: wait until this many requests have an append in a log that is not committed yet.
func (a *API) LogWait(log string, params LogWaitParams) (answer LogWaitAnswer, err error) {
	p := parameters{}
	p.set("pending", params.Pending)
	p.set("ahead", params.Ahead)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/logs/"+escaped(log)+"/pending", p, &answer)
	return answer, err
}

// LogLoseTailParams are the optional parameters of [API.LogLoseTail]; those that are pointers may be zero, as in Ptr(0).
type LogLoseTailParams struct {
	// how many records.
	Records int
	// instead of records: the new end or start offset of the log.
	To *int
	// node id of the new leader (default: another replica that is up).
	Leader *int
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// LogLoseTail: delete committed records at the end of a log, as an unclean leader election or a restored disk
// does.
func (a *API) LogLoseTail(log string, params LogLoseTailParams) (answer Log, err error) {
	p := parameters{}
	p.set("records", params.Records)
	p.set("to", params.To)
	p.set("leader", params.Leader)
	p.set("ahead", params.Ahead)
	err = a.call("POST", a.cluster+"/logs/"+escaped(log)+"/tail/loss", p, &answer)
	return answer, err
}

// LogLoseHeadParams are the optional parameters of [API.LogLoseHead]; those that are pointers may be zero, as in Ptr(0).
type LogLoseHeadParams struct {
	// how many records.
	Records int
	// instead of records: the new end or start offset of the log.
	To *int
	// node id of the new leader (default: another replica that is up).
	Leader *int
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// LogLoseHead: delete the first records of a log, as a leader whose log starts later does.
func (a *API) LogLoseHead(log string, params LogLoseHeadParams) (answer Log, err error) {
	p := parameters{}
	p.set("records", params.Records)
	p.set("to", params.To)
	p.set("leader", params.Leader)
	p.set("ahead", params.Ahead)
	err = a.call("POST", a.cluster+"/logs/"+escaped(log)+"/head/loss", p, &answer)
	return answer, err
}

// LeaderMoveParams are the optional parameters of [API.LeaderMove]; those that are pointers may be zero, as in Ptr(0).
type LeaderMoveParams struct {
	// node id of the new leader (default: the next broker that is up).
	Broker *int
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// LeaderMove: move the leader of a log partition; for an offsets partition this moves the coordinator of its
// groups.
func (a *API) LeaderMove(log string, params LeaderMoveParams) (answer Log, err error) {
	p := parameters{}
	p.set("broker", params.Broker)
	p.set("ahead", params.Ahead)
	err = a.call("POST", a.cluster+"/logs/"+escaped(log)+"/leader", p, &answer)
	return answer, err
}

// LeaderElectParams are the optional parameters of [API.LeaderElect]; those that are pointers may be zero, as in Ptr(0).
type LeaderElectParams struct {
	// an in-sync replica (default: the current leader).
	Broker *int
	// allow a group or transactional id that does not exist yet.
	Ahead bool
}

// LeaderElect: increment the leader epoch; requests with the old one get FENCED_LEADER_EPOCH.
func (a *API) LeaderElect(log string, params LeaderElectParams) (answer Log, err error) {
	p := parameters{}
	p.set("broker", params.Broker)
	p.set("ahead", params.Ahead)
	err = a.call("POST", a.cluster+"/logs/"+escaped(log)+"/elect", p, &answer)
	return answer, err
}

// LeaderPrefer: elect the preferred leader of every partition whose first replica is alive and in sync.
func (a *API) LeaderPrefer() (answer LeaderPreferAnswer, err error) {
	p := parameters{}
	err = a.call("POST", a.cluster+"/leaders/preferred", p, &answer)
	return answer, err
}

// RequestListParams are the optional parameters of [API.RequestList]; those that are pointers may be zero, as in Ptr(0).
type RequestListParams struct {
	// API name, for example OffsetCommit, or a list; * matches anything (default: all).
	API []string
	// API versions: 8 or 2-4.
	Version string
	// client id; * matches anything.
	ClientID string
	// group id in the request; * matches anything.
	Group string
	// member id or instance id in the request; * matches anything.
	Member string
	// transactional id in the request; * matches anything.
	TransactionalID string
	// topic in the request; * matches anything.
	Topic string
	// a partition of that topic.
	Partition *int
	// only at the broker with this node id.
	Broker *int
	// at most so many, the latest.
	Limit int
}

// RequestList: list the requests that the brokers received, the latest ones, oldest first; received: the number
// of all that fit.
func (a *API) RequestList(params RequestListParams) (answer RequestListAnswer, err error) {
	p := parameters{}
	p.set("api", params.API)
	p.set("version", params.Version)
	p.set("client_id", params.ClientID)
	p.set("group", params.Group)
	p.set("member", params.Member)
	p.set("transactional_id", params.TransactionalID)
	p.set("topic", params.Topic)
	p.set("partition", params.Partition)
	p.set("broker", params.Broker)
	p.set("limit", params.Limit)
	err = a.call("GET", a.cluster+"/requests", p, &answer)
	return answer, err
}

// RequestWaitParams are the optional parameters of [API.RequestWait]; those that are pointers may be zero, as in Ptr(0).
type RequestWaitParams struct {
	// number of requests.
	Count int
	// API name, for example OffsetCommit, or a list; * matches anything (default: all).
	API []string
	// API versions: 8 or 2-4.
	Version string
	// client id; * matches anything.
	ClientID string
	// group id in the request; * matches anything.
	Group string
	// member id or instance id in the request; * matches anything.
	Member string
	// transactional id in the request; * matches anything.
	TransactionalID string
	// topic in the request; * matches anything.
	Topic string
	// a partition of that topic.
	Partition *int
	// only at the broker with this node id.
	Broker *int
	// only requests with a response.
	Answered bool
	// at most so many, the latest.
	Limit int
	// timeout, in real time.
	Timeout time.Duration
}

// RequestWait: wait until the brokers have received so many requests, earlier ones included; answers as
// request.list.
func (a *API) RequestWait(params RequestWaitParams) (answer RequestWaitAnswer, err error) {
	p := parameters{}
	p.set("count", params.Count)
	p.set("api", params.API)
	p.set("version", params.Version)
	p.set("client_id", params.ClientID)
	p.set("group", params.Group)
	p.set("member", params.Member)
	p.set("transactional_id", params.TransactionalID)
	p.set("topic", params.Topic)
	p.set("partition", params.Partition)
	p.set("broker", params.Broker)
	p.set("answered", params.Answered)
	p.set("limit", params.Limit)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/requests/wait", p, &answer)
	return answer, err
}

// FaultAddParams are the optional parameters of [API.FaultAdd]; those that are pointers may be zero, as in Ptr(0).
type FaultAddParams struct {
	// API name, for example OffsetCommit, or a list; * matches anything (default: all).
	API []string
	// API versions: 8 or 2-4.
	Version string
	// client id; * matches anything.
	ClientID string
	// group id in the request; * matches anything.
	Group string
	// member id or instance id in the request; * matches anything.
	Member string
	// transactional id in the request; * matches anything.
	TransactionalID string
	// topic in the request; * matches anything.
	Topic string
	// a partition of that topic.
	Partition *int
	// only at the broker with this node id.
	Broker *int
	// only the n-th match, from 1.
	Nth int
	// maximum number of matches (default: unlimited).
	Times int
	// probability of a match, from the cluster's seed.
	Probability *float64
	// start this long after the rule was added.
	After time.Duration
	// end this long after it began (default: with its removal).
	During time.Duration
	// respond with this error; the request is not applied.
	Error string
	// apply the request, then respond with this error.
	ErrorAfter string
	// handle the request after this delay.
	Delay time.Duration
	// handle the request, respond after this delay.
	ReplyDelay time.Duration
	// never handle or answer the request.
	Hang bool
	// reset the connection; the request is not applied.
	Drop bool
	// apply the request, then reset the connection.
	DropAfter bool
	// send this many bytes of the response, then close the connection.
	Truncate *int
	// send the response in two parts, the first with this many bytes.
	Split int
	// throttle_time_ms of the response; the connection is muted for that time.
	ThrottleMs int
	// split: delay between the two parts.
	Gap time.Duration
	// removing the rule before it matched is an error (default: true, except with a probability).
	MustHit *bool
}

// FaultAdd: add a request rule: selectors (all must match), how often it applies, and one action.
func (a *API) FaultAdd(params FaultAddParams) (answer FaultAddAnswer, err error) {
	p := parameters{}
	p.set("api", params.API)
	p.set("version", params.Version)
	p.set("client_id", params.ClientID)
	p.set("group", params.Group)
	p.set("member", params.Member)
	p.set("transactional_id", params.TransactionalID)
	p.set("topic", params.Topic)
	p.set("partition", params.Partition)
	p.set("broker", params.Broker)
	p.set("nth", params.Nth)
	p.set("times", params.Times)
	p.set("probability", params.Probability)
	p.set("after", params.After)
	p.set("during", params.During)
	p.set("error", params.Error)
	p.set("error_after", params.ErrorAfter)
	p.set("delay", params.Delay)
	p.set("reply_delay", params.ReplyDelay)
	p.set("hang", params.Hang)
	p.set("drop", params.Drop)
	p.set("drop_after", params.DropAfter)
	p.set("truncate", params.Truncate)
	p.set("split", params.Split)
	p.set("throttle_ms", params.ThrottleMs)
	p.set("gap", params.Gap)
	p.set("must_hit", params.MustHit)
	err = a.call("POST", a.cluster+"/faults", p, &answer)
	return answer, err
}

// FaultList: list the request rules, oldest first.
func (a *API) FaultList() (answer FaultListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/faults", p, &answer)
	return answer, err
}

// FaultClear: remove all rules, matched or not.
func (a *API) FaultClear() (answer FaultClearAnswer, err error) {
	p := parameters{}
	err = a.call("DELETE", a.cluster+"/faults", p, &answer)
	return answer, err
}

// FaultGetParams are the optional parameters of [API.FaultGet]; those that are pointers may be zero, as in Ptr(0).
type FaultGetParams struct {
	// wait until it has matched this often.
	WaitHits int
	// timeout, in real time.
	Timeout time.Duration
}

// FaultGet: show a rule and how often it matched; with wait_hits, once it has matched that often.
func (a *API) FaultGet(fault int, params FaultGetParams) (answer FaultInfo, err error) {
	p := parameters{}
	p.set("wait_hits", params.WaitHits)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/faults/"+escaped(fault), p, &answer)
	return answer, err
}

// FaultRemoveParams are the optional parameters of [API.FaultRemove]; those that are pointers may be zero, as in Ptr(0).
type FaultRemoveParams struct {
	// false: no error if it never matched (default: as added).
	MustHit *bool
}

// FaultRemove: remove a rule. If it was required to match and never did, it is removed and an error is returned.
func (a *API) FaultRemove(fault int, params FaultRemoveParams) (answer FaultInfo, err error) {
	p := parameters{}
	p.set("must_hit", params.MustHit)
	err = a.call("DELETE", a.cluster+"/faults/"+escaped(fault), p, &answer)
	return answer, err
}

// FaultWaitParams are the optional parameters of [API.FaultWait]; those that are pointers may be zero, as in Ptr(0).
type FaultWaitParams struct {
	// how many.
	Hits int
	// timeout, in real time.
	Timeout time.Duration
}

// FaultWait: wait until a rule has matched that often.
func (a *API) FaultWait(fault int, params FaultWaitParams) (answer FaultInfo, err error) {
	p := parameters{}
	p.set("hits", params.Hits)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/faults/"+escaped(fault)+"/hits", p, &answer)
	return answer, err
}

// FaultRelease: release the requests that a rule delays or leaves unanswered; the rule stays.
func (a *API) FaultRelease(fault int) (answer FaultInfo, err error) {
	p := parameters{}
	err = a.call("POST", a.cluster+"/faults/"+escaped(fault)+"/release", p, &answer)
	return answer, err
}

// OrderHoldParams are the optional parameters of [API.OrderHold]; those that are pointers may be zero, as in Ptr(0).
type OrderHoldParams struct {
	// API name, for example OffsetCommit, or a list; * matches anything (default: all).
	API []string
	// API versions: 8 or 2-4.
	Version string
	// client id; * matches anything.
	ClientID string
	// group id in the request; * matches anything.
	Group string
	// member id or instance id in the request; * matches anything.
	Member string
	// transactional id in the request; * matches anything.
	TransactionalID string
	// topic in the request; * matches anything.
	Topic string
	// a partition of that topic.
	Partition *int
	// only at the broker with this node id.
	Broker *int
}

// OrderHold: hold matching requests, in arrival order, until they are released.
func (a *API) OrderHold(params OrderHoldParams) (answer OrderHoldAnswer, err error) {
	p := parameters{}
	p.set("api", params.API)
	p.set("version", params.Version)
	p.set("client_id", params.ClientID)
	p.set("group", params.Group)
	p.set("member", params.Member)
	p.set("transactional_id", params.TransactionalID)
	p.set("topic", params.Topic)
	p.set("partition", params.Partition)
	p.set("broker", params.Broker)
	err = a.call("POST", a.cluster+"/order", p, &answer)
	return answer, err
}

// OrderList: list the holds and the requests that wait in them.
func (a *API) OrderList() (answer OrderListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/order", p, &answer)
	return answer, err
}

// OrderWaitParams are the optional parameters of [API.OrderWait]; those that are pointers may be zero, as in Ptr(0).
type OrderWaitParams struct {
	// wait until this many requests are held (0: don't wait).
	Waiting int
	// timeout, in real time.
	Timeout time.Duration
}

// OrderWait: show the held requests of a hold; with waiting, once it holds that many.
func (a *API) OrderWait(hold int, params OrderWaitParams) (answer Hold, err error) {
	p := parameters{}
	p.set("waiting", params.Waiting)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/order/"+escaped(hold), p, &answer)
	return answer, err
}

// OrderRemove: remove a hold and release its requests, oldest first.
func (a *API) OrderRemove(hold int) (answer Hold, err error) {
	p := parameters{}
	err = a.call("DELETE", a.cluster+"/order/"+escaped(hold), p, &answer)
	return answer, err
}

// OrderReleaseParams are the optional parameters of [API.OrderRelease]; those that are pointers may be zero, as in Ptr(0).
type OrderReleaseParams struct {
	// number of requests, oldest first (default: all).
	Count int
}

// OrderRelease: release held requests, oldest first; the hold stays active.
func (a *API) OrderRelease(hold int, params OrderReleaseParams) (answer Hold, err error) {
	p := parameters{}
	p.set("count", params.Count)
	err = a.call("POST", a.cluster+"/order/"+escaped(hold)+"/release", p, &answer)
	return answer, err
}

// OrderStepParams are the optional parameters of [API.OrderStep]; those that are pointers may be zero, as in Ptr(0).
type OrderStepParams struct {
	// timeout, in real time.
	Timeout time.Duration
}

// OrderStep: release the oldest held request, waiting for one if necessary, and return it.
func (a *API) OrderStep(hold int, params OrderStepParams) (answer OrderStepAnswer, err error) {
	p := parameters{}
	p.set("timeout", params.Timeout)
	err = a.call("POST", a.cluster+"/order/"+escaped(hold)+"/step", p, &answer)
	return answer, err
}

// OrderRecord: record the order of all requests from now on.
func (a *API) OrderRecord() (answer OrderRecordAnswer, err error) {
	p := parameters{}
	err = a.call("POST", a.cluster+"/order/recording", p, &answer)
	return answer, err
}

// OrderRecorded: show the requests of the recorded order.
func (a *API) OrderRecorded() (answer OrderRecordedAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/order/recording", p, &answer)
	return answer, err
}

// OrderStop: stop the recording and return it.
func (a *API) OrderStop() (answer OrderStopAnswer, err error) {
	p := parameters{}
	err = a.call("DELETE", a.cluster+"/order/recording", p, &answer)
	return answer, err
}

// OrderReplayParams are the optional parameters of [API.OrderReplay]; those that are pointers may be zero, as in Ptr(0).
type OrderReplayParams struct {
	// APIs that are not held back (default: ApiVersions, Fetch, Heartbeat, Metadata).
	Free []string
	// how long to wait for the next request while others are held, in real time.
	Deadline time.Duration
}

// OrderReplay: release requests in a recorded order; early ones wait. If an expected request never arrives, the
// replay has diverged.
func (a *API) OrderReplay(entries []map[string]any, params OrderReplayParams) (answer Replay, err error) {
	p := parameters{}
	p["entries"] = entries
	p.set("free", params.Free)
	p.set("deadline", params.Deadline)
	err = a.call("POST", a.cluster+"/order/replay", p, &answer)
	return answer, err
}

// OrderReplayedParams are the optional parameters of [API.OrderReplayed]; those that are pointers may be zero, as in Ptr(0).
type OrderReplayedParams struct {
	// wait until the whole recording was replayed.
	Done bool
	// timeout, in real time.
	Timeout time.Duration
}

// OrderReplayed: show the progress of the replay; with done, once it is complete. A diverged replay is an error
// then.
func (a *API) OrderReplayed(params OrderReplayedParams) (answer Replay, err error) {
	p := parameters{}
	p.set("done", params.Done)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/order/replay", p, &answer)
	return answer, err
}

// OrderUnreplay: stop the replay and release the waiting requests.
func (a *API) OrderUnreplay() (answer Replay, err error) {
	p := parameters{}
	err = a.call("DELETE", a.cluster+"/order/replay", p, &answer)
	return answer, err
}

// TopicList: list all topics, internal ones included.
func (a *API) TopicList() (answer TopicListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/topics", p, &answer)
	return answer, err
}

// TopicCreateParams are the optional parameters of [API.TopicCreate]; those that are pointers may be zero, as in Ptr(0).
type TopicCreateParams struct {
	// number of partitions (default: num.partitions).
	Partitions int
	// number of replicas (default: default.replication.factor).
	ReplicationFactor int
	// topic settings by Kafka's names.
	Configs map[string]any
}

// TopicCreate: create a topic; without a number of partitions it gets the broker's default.
func (a *API) TopicCreate(topic string, params TopicCreateParams) (answer TopicInfo, err error) {
	p := parameters{}
	p["topic"] = topic
	p.set("partitions", params.Partitions)
	p.set("replication_factor", params.ReplicationFactor)
	p.set("configs", params.Configs)
	err = a.call("POST", a.cluster+"/topics", p, &answer)
	return answer, err
}

// TopicGet: show a topic: partitions, replication factor, number of records.
func (a *API) TopicGet(topic string) (answer TopicInfo, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/topics/"+escaped(topic), p, &answer)
	return answer, err
}

// TopicDelete: delete a topic with all its records.
func (a *API) TopicDelete(topic string) (answer TopicDeleteAnswer, err error) {
	p := parameters{}
	err = a.call("DELETE", a.cluster+"/topics/"+escaped(topic), p, &answer)
	return answer, err
}

// TopicFillParams are the optional parameters of [API.TopicFill]; those that are pointers may be zero, as in Ptr(0).
type TopicFillParams struct {
	// size of each value in bytes (default: a short text).
	ValueBytes *int
}

// TopicFill: append records to a topic, as a producer does.
func (a *API) TopicFill(topic string, records int, params TopicFillParams) (answer TopicInfo, err error) {
	p := parameters{}
	p["records"] = records
	p.set("value_bytes", params.ValueBytes)
	err = a.call("POST", a.cluster+"/topics/"+escaped(topic)+"/records", p, &answer)
	return answer, err
}

// TopicRecordsParams are the optional parameters of [API.TopicRecords]; those that are pointers may be zero, as in Ptr(0).
type TopicRecordsParams struct {
	// of this partition alone.
	Partition *int
	// from this offset on (default: from the first record on).
	Offset *int
	// at most so many records.
	Limit int
	// a consumer's isolation.level: with or without records of open and aborted transactions; one of read_committed,
	// read_uncommitted.
	Isolation string
	// of keys and values; in a text, bytes that are no UTF-8 are \xNN; one of text, base64.
	Encoding string
}

// TopicRecords: show a topic's records, as a consumer gets them; more: there are others behind them.
func (a *API) TopicRecords(topic string, params TopicRecordsParams) (answer TopicRecordsAnswer, err error) {
	p := parameters{}
	p.set("partition", params.Partition)
	p.set("offset", params.Offset)
	p.set("limit", params.Limit)
	p.set("isolation", params.Isolation)
	p.set("encoding", params.Encoding)
	err = a.call("GET", a.cluster+"/topics/"+escaped(topic)+"/records", p, &answer)
	return answer, err
}

// TopicWaitParams are the optional parameters of [API.TopicWait]; those that are pointers may be zero, as in Ptr(0).
type TopicWaitParams struct {
	// a consumer's isolation.level: with or without records of open and aborted transactions; one of read_committed,
	// read_uncommitted.
	Isolation string
	// timeout, in real time.
	Timeout time.Duration
}

// TopicWait: wait until a topic has so many records.
func (a *API) TopicWait(topic string, records int, params TopicWaitParams) (answer TopicInfo, err error) {
	p := parameters{}
	p["records"] = records
	p.set("isolation", params.Isolation)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/topics/"+escaped(topic)+"/wait", p, &answer)
	return answer, err
}

// TopicGrow: add partitions to a topic; clients see them when they refresh their metadata.
func (a *API) TopicGrow(topic string, partitions int) (answer TopicInfo, err error) {
	p := parameters{}
	p["partitions"] = partitions
	err = a.call("POST", a.cluster+"/topics/"+escaped(topic)+"/partitions", p, &answer)
	return answer, err
}

// ScenarioStartParams are the optional parameters of [API.ScenarioStart]; those that are pointers may be zero, as in Ptr(0).
type ScenarioStartParams struct {
	// name of an included scenario; with file: name of the file in messages.
	Name string
	// the text of a scenario file.
	File string
	// start the file's clients, too, in place of waiting for those of the test.
	StartClients bool
	// run it although the cluster's release or settings are not those of the file.
	AnySettings bool
}

// ScenarioStart: run the steps of a scenario file on these brokers, with the clients that use them, until
// scenario.end.
func (a *API) ScenarioStart(params ScenarioStartParams) (answer ScenarioInfo, err error) {
	p := parameters{}
	p.set("name", params.Name)
	p.set("file", params.File)
	p.set("start_clients", params.StartClients)
	p.set("any_settings", params.AnySettings)
	err = a.call("POST", a.cluster+"/scenarios", p, &answer)
	return answer, err
}

// ScenarioList: list the scenarios of scenario.start that were not ended, oldest first.
func (a *API) ScenarioList() (answer ScenarioListAnswer, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/scenarios", p, &answer)
	return answer, err
}

// ScenarioGet: show a scenario: the steps that are done, what it waits for, its progress, verdict and
// expectations.
func (a *API) ScenarioGet(scenario int) (answer ScenarioInfo, err error) {
	p := parameters{}
	err = a.call("GET", a.cluster+"/scenarios/"+escaped(scenario), p, &answer)
	return answer, err
}

// ScenarioEndParams are the optional parameters of [API.ScenarioEnd]; those that are pointers may be zero, as in Ptr(0).
type ScenarioEndParams struct {
	// false: no error if its expectations failed (default: an error, once).
	MustHold *bool
}

// ScenarioEnd: end a scenario: cancel it if it runs, and clear the states, rules, holds and stopped brokers that
// its steps left.
func (a *API) ScenarioEnd(scenario int, params ScenarioEndParams) (answer ScenarioInfo, err error) {
	p := parameters{}
	p.set("must_hold", params.MustHold)
	err = a.call("DELETE", a.cluster+"/scenarios/"+escaped(scenario), p, &answer)
	return answer, err
}

// ScenarioWaitParams are the optional parameters of [API.ScenarioWait]; those that are pointers may be zero, as in Ptr(0).
type ScenarioWaitParams struct {
	// wait until this step is done (default: until the scenario has ended).
	Step string
	// timeout, in real time.
	Timeout time.Duration
}

// ScenarioWait: wait until a scenario has ended, or until a step is done. A scenario whose expectations failed
// is an error then.
func (a *API) ScenarioWait(scenario int, params ScenarioWaitParams) (answer ScenarioInfo, err error) {
	p := parameters{}
	p.set("step", params.Step)
	p.set("timeout", params.Timeout)
	err = a.call("GET", a.cluster+"/scenarios/"+escaped(scenario)+"/wait", p, &answer)
	return answer, err
}
