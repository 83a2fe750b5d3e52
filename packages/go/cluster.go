// Package brokersim starts simulated Kafka clusters that real clients connect to, and breaks them.
//
//	func TestCommit(t *testing.T) {
//		kafka := brokersim.New(t, brokersim.NumBrokers(3), brokersim.SeedTopics(6, "orders"), brokersim.Clock("manual"))
//		client, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...))
//		...
//	}
//
// [New] is for tests: what can't be done ends the test, and a test that fails logs what happened to its groups. [NewCluster] has the
// functions of franz-go's kfake with the same names. Both serve their clusters from one process of broker-sim, which ends with this one.
package brokersim

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Opt is an option of a cluster.
type Opt func(*options)

type options struct {
	create    ClusterCreateParams
	tls, sasl bool
	methods   map[string]bool
	ports     []int
	listeners []string
	config    map[string]any
	scenario  string
	err       error
}

// NumBrokers sets the number of brokers; the default is 1, and not kfake's 3.
func NumBrokers(n int) Opt { return func(o *options) { o.create.Brokers = n } }

// Ports sets the brokers' ports, which must follow on each other: Ports(9092), or one for each broker. The default are free ports.
func Ports(ports ...int) Opt { return func(o *options) { o.ports = ports } }

// SeedTopics creates topics with a number of partitions; -1: num.partitions.
func SeedTopics(partitions int32, topics ...string) Opt {
	return func(o *options) {
		for _, topic := range topics {
			o.topic(topic)["partitions"] = partitions
		}
	}
}

// TopicConfigs sets settings of a topic by Kafka's names, which is created with one partition unless SeedTopics says otherwise.
func TopicConfigs(topic string, configs map[string]string) Opt {
	return func(o *options) {
		for name, value := range configs {
			o.topic(topic)[name] = value
		}
	}
}

func (o *options) topic(name string) map[string]any {
	if o.create.Topics == nil {
		o.create.Topics = map[string]any{}
	}
	if o.create.Topics[name] == nil {
		o.create.Topics[name] = map[string]any{"partitions": 1}
	}
	return o.create.Topics[name].(map[string]any)
}

// AsVersion sets the Kafka release to behave as: "3.4" to "4.4".
func AsVersion(release string) Opt { return func(o *options) { o.create.AsVersion = release } }

// Clock sets the brokers' clock: "real", "manual" or "scaled:10".
func Clock(clock string) Opt { return func(o *options) { o.create.Clock = clock } }

// Seed sets the seed of the random numbers.
func Seed(seed int64) Opt { return func(o *options) { o.create.Seed = strconv.FormatInt(seed, 10) } }

// InternalTopics says when __consumer_offsets and the other internal topics are created: "at-start" (the default here), or "on-demand"
// as in Kafka, where the first client that needs one gets COORDINATOR_NOT_AVAILABLE and asks again.
func InternalTopics(when string) Opt { return func(o *options) { o.create.InternalTopics = when } }

// BrokerConfigs sets settings of the brokers by Kafka's names. Groups form at once unless group.initial.rebalance.delay.ms is set.
func BrokerConfigs(configs map[string]string) Opt {
	return func(o *options) {
		for name, value := range configs {
			o.config[name] = value
		}
	}
}

// AllowAutoTopicCreation lets Metadata requests create topics. It is the default, as in Kafka.
func AllowAutoTopicCreation() Opt {
	return BrokerConfigs(map[string]string{"auto.create.topics.enable": "true"})
}

// DefaultNumPartitions sets num.partitions.
func DefaultNumPartitions(n int) Opt {
	return BrokerConfigs(map[string]string{"num.partitions": strconv.Itoa(n)})
}

// GroupMinSessionTimeout sets group.min.session.timeout.ms.
func GroupMinSessionTimeout(d time.Duration) Opt {
	return BrokerConfigs(map[string]string{"group.min.session.timeout.ms": strconv.FormatInt(d.Milliseconds(), 10)})
}

// GroupMaxSessionTimeout sets group.max.session.timeout.ms.
func GroupMaxSessionTimeout(d time.Duration) Opt {
	return BrokerConfigs(map[string]string{"group.max.session.timeout.ms": strconv.FormatInt(d.Milliseconds(), 10)})
}

// Listeners sets the listeners, as Kafka's setting: Listeners("PLAINTEXT://127.0.0.1:0", "EXTERNAL://127.0.0.1:0"). A name that is no
// security protocol has that of the cluster.
func Listeners(listeners ...string) Opt { return func(o *options) { o.listeners = listeners } }

// EnableSASL lets clients in that authenticate as a User.
func EnableSASL() Opt { return func(o *options) { o.sasl = true } }

// TLS makes clients connect by TLS; [Cluster.TLSConfig] trusts the brokers.
func TLS() Opt { return func(o *options) { o.tls = true } }

// User adds a user: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, a name and a password. The mechanisms of all users are enabled.
func User(method, user, password string) Opt {
	return func(o *options) {
		if o.create.Users == nil {
			o.create.Users = map[string]string{}
		}
		if earlier, is := o.create.Users[user]; is && earlier != password {
			o.err = fmt.Errorf("user %q has two passwords", user)
		}
		o.create.Users[user] = password
		o.methods[method] = true
	}
}

// ForScenario makes the cluster that a scenario file describes, with its topics: a path, or the name of an included scenario. Options
// that differ from their defaults replace the file's settings. [New] starts the scenario, too.
func ForScenario(file string) Opt {
	return func(o *options) {
		o.scenario = file
		o.create.Scenario, o.create.ScenarioFile, o.err = scenarioFile(file)
	}
}

// scenarioFile is the name and the text of a scenario file; the text of an included one is empty.
func scenarioFile(file string) (name, text string, err error) {
	if !strings.Contains(file, "/") && !strings.HasSuffix(file, ".yaml") && !strings.HasSuffix(file, ".yml") {
		return file, "", nil
	}
	read, err := os.ReadFile(file)
	return file, string(read), err
}

// Superuser is User: nothing is authorized here.
func Superuser(method, user, password string) Opt { return User(method, user, password) }

func settings(opts []Opt) (*options, error) {
	o := &options{methods: map[string]bool{}, config: map[string]any{}}
	o.create.InternalTopics = "at-start"
	for _, opt := range opts {
		opt(o)
	}
	const delay = "group.initial.rebalance.delay.ms"
	if _, given := o.config[delay]; !given && o.scenario == "" {
		o.config[delay] = "0"
	}
	o.create.SecurityProtocol = map[[2]bool]string{
		{false, false}: "PLAINTEXT", {true, false}: "SSL", {false, true}: "SASL_PLAINTEXT", {true, true}: "SASL_SSL",
	}[[2]bool{o.tls, o.sasl}]
	if len(o.methods) > 0 {
		var methods []string
		for method := range o.methods {
			methods = append(methods, method)
		}
		sort.Strings(methods)
		o.config["sasl.enabled.mechanisms"] = strings.Join(methods, ",")
	}
	for i, port := range o.ports {
		if port != o.ports[0]+i {
			return o, fmt.Errorf("ports %v do not follow on each other", o.ports)
		}
	}
	if len(o.ports) > max(o.create.Brokers, 1) {
		return o, fmt.Errorf("%d ports for %d brokers", len(o.ports), max(o.create.Brokers, 1))
	}
	if len(o.ports) > 0 && len(o.listeners) > 0 {
		return o, errors.New("Ports and Listeners both say where the brokers listen")
	}
	if len(o.ports) > 0 {
		o.listeners = []string{fmt.Sprintf("%s://127.0.0.1:%d", o.create.SecurityProtocol, o.ports[0])}
	}
	if len(o.listeners) > 0 {
		o.config["listeners"] = strings.Join(o.listeners, ",")
	}
	o.create.Config = o.config
	return o, o.err
}

// Cluster is a simulated Kafka cluster.
type Cluster struct {
	API // every operation on it
	// Created is what the control server answered: id, listeners, release, certificate authority.
	Created ClusterInfo

	scenario string // of ForScenario
}

// MustCluster is NewCluster; it panics on errors.
func MustCluster(opts ...Opt) *Cluster {
	kafka, err := NewCluster(opts...)
	if err != nil {
		panic(err)
	}
	return kafka
}

// NewCluster starts a cluster. Close stops it.
func NewCluster(opts ...Opt) (*Cluster, error) {
	given, err := settings(opts)
	if err != nil {
		return nil, err
	}
	server, err := find()
	if err != nil {
		return nil, err
	}
	created, err := (&API{server: server}).ClusterCreate(given.create)
	if err != nil {
		return nil, err
	}
	return &Cluster{API{server, "/clusters/" + escaped(created.ID)}, created, given.scenario}, nil
}

// Close stops the cluster: its connections are closed, its ports are free.
func (c *Cluster) Close() { c.ClusterDelete(c.Created.ID) }

// ListenAddrs has one address for each broker.
func (c *Cluster) ListenAddrs() []string { return strings.Split(c.Created.Bootstrap, ",") }

// ListenerAddrs has one address for each broker's listener of that name; none without such a listener.
func (c *Cluster) ListenerAddrs(name string) []string {
	if addresses := c.Created.Listeners[name]; addresses != "" {
		return strings.Split(addresses, ",")
	}
	return nil
}

// TLSConfig trusts the brokers' certificates; nil without TLS.
func (c *Cluster) TLSConfig() *tls.Config {
	if c.Created.CA == "" {
		return nil
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM([]byte(c.Created.CA))
	return &tls.Config{RootCAs: trusted}
}

// CreateTopic creates a topic with settings by Kafka's names; 0 partitions: num.partitions.
func (c *Cluster) CreateTopic(topic string, partitions int32, configs map[string]string) error {
	given := map[string]any{}
	for name, value := range configs {
		given[name] = value
	}
	_, err := c.TopicCreate(topic, TopicCreateParams{Partitions: int(partitions), Configs: given})
	return err
}

// DeleteTopic deletes a topic with its records.
func (c *Cluster) DeleteTopic(topic string) error {
	_, err := c.TopicDelete(topic)
	return err
}

// MoveTopicPartition makes a broker the leader of a partition.
func (c *Cluster) MoveTopicPartition(topic string, partition, nodeID int32) error {
	_, err := c.LeaderMove(fmt.Sprintf("%s-%d", topic, partition), LeaderMoveParams{Broker: Ptr(int(nodeID))})
	return err
}

// LeaderFor returns the node id of a partition's leader; -1 if there is no such partition.
func (c *Cluster) LeaderFor(topic string, partition int32) int32 {
	return c.leader(fmt.Sprintf("%s-%d", topic, partition))
}

// CoordinatorFor returns the node id of the coordinator of a group, which need not exist; -1 before there is one.
func (c *Cluster) CoordinatorFor(group string) int32 { return c.leader(OffsetsLog(group)) }

func (c *Cluster) leader(log string) int32 {
	found, err := c.LogGet(log, LogGetParams{Ahead: strings.HasPrefix(log, "offsets(")})
	if err != nil {
		return -1
	}
	return int32(found.Leader)
}

// OffsetsLog names the partition of __consumer_offsets in which a group's offsets are.
func OffsetsLog(group string) string { return "offsets(" + group + ")" }

// Try makes any call of the control server on the cluster by its path: Try("POST", "/brokers/2/down", nil, nil). answer may be a pointer
// to what its JSON is read into.
func (c *Cluster) Try(method, path string, params Params, answer any) error {
	return c.call(method, c.cluster+path, params, answer)
}
