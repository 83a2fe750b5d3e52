// Driver for franz-go. The protocol is the one that python/line_protocol.py describes: a JSON object a line, requests on
// stdin, replies on stdout, the client's log on stderr. A member polls by itself in its own goroutine.
//
// franz-go consumes assigned partitions outside of any group; the group's offsets are then read and committed through
// kadm, as its documentation recommends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const callTimeout = 20 * time.Second

var (
	connected connection
	out       sync.Mutex
	members   = map[string]*member{}
	admin     *kadm.Client // one for the process, made again by connect
	errLater  = errors.New("answered later, by a callback")
	balancers = map[string]func() kgo.GroupBalancer{
		"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer,
	}
	codecs = map[string]func() kgo.CompressionCodec{
		"": kgo.NoCompression, "gzip": kgo.GzipCompression, "snappy": kgo.SnappyCompression, "lz4": kgo.Lz4Compression,
		"zstd": kgo.ZstdCompression,
	}
)

type partition struct {
	topic string
	index int32
}

func (p *partition) UnmarshalJSON(data []byte) error { return unmarshalRow(data, &p.topic, &p.index) }
func (p partition) MarshalJSON() ([]byte, error)     { return json.Marshal([]any{p.topic, p.index}) }

type offsetRow struct {
	partition
	offset   int64
	metadata string
}

func (o *offsetRow) UnmarshalJSON(data []byte) error {
	return unmarshalRow(data, &o.topic, &o.index, &o.offset, &o.metadata)
}
func (o offsetRow) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{o.topic, o.index, o.offset, o.metadata})
}

func unmarshalRow(data []byte, fields ...any) error { return json.Unmarshal(data, &fields) }

type request struct {
	ID                   int               `json:"id"`
	Op                   string            `json:"op"`
	Member               string            `json:"member"`
	Group                *string           `json:"group"`
	Topics               []string          `json:"topics"`
	Pattern              string            `json:"pattern"`
	Config               map[string]string `json:"config"`
	Assign               []partition       `json:"assign"`
	Strategy             string            `json:"strategy"`
	Instance             string            `json:"instance"`
	Reset                string            `json:"reset"`
	Isolation            string            `json:"isolation"`
	AutoCommit           bool              `json:"auto_commit"`
	AutoCommitIntervalMS int               `json:"auto_commit_interval_ms"`
	SessionTimeoutMS     int               `json:"session_timeout_ms"`
	HeartbeatIntervalMS  int               `json:"heartbeat_interval_ms"`
	MetadataMaxAgeMS     int               `json:"metadata_max_age_ms"`
	How                  string            `json:"how"`
	Offsets              []offsetRow       `json:"offsets"`
	PartitionRows        partitions        `json:"partitions"`
	TimestampMS          int64             `json:"timestamp_ms"`
	Topic                string            `json:"topic"`
	Total                int               `json:"total"`
	Partition            int32             `json:"partition"`
	Before               int64             `json:"before"`
	Acks                 string            `json:"acks"`
	Compression          string            `json:"compression"`
	MayCreate            bool              `json:"may_create"`
	Records              []produced        `json:"records"`
	Name                 string            `json:"name"`
	TransactionalID      string            `json:"transactional_id"`
	TimeoutMS            int               `json:"timeout_ms"`
	End                  string            `json:"end"`
	Source               string            `json:"source"`
	Sink                 string            `json:"sink"`
	Count                int               `json:"count"`
	Leave                string            `json:"leave"`
	connection
}

type produced struct {
	Topic     string      `json:"topic"`
	Partition *int32      `json:"partition"`
	Key       *string     `json:"key"`
	Value     string      `json:"value"`
	Timestamp *int64      `json:"timestamp"`
	Headers   [][2]string `json:"headers"`
}

// partitions is a list of partitions, or, for create_topic, their number.
type partitions struct {
	rows  []partition
	count int32
}

func (p *partitions) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, &p.rows)
	}
	return json.Unmarshal(data, &p.count)
}

type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func describe(err error) failure {
	var broker *kerr.Error
	if errors.As(err, &broker) {
		return failure{broker.Message, err.Error()}
	}
	return failure{reflect.TypeOf(err).String(), err.Error()}
}

func answer(r *request, value any, err error) {
	if err == errLater {
		return
	}
	reply := map[string]any{"id": r.ID, "ok": value}
	if err != nil {
		reply = map[string]any{"id": r.ID, "error": describe(err)}
	}
	line, _ := json.Marshal(reply)
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// watch reports connections that the broker ended: the matrix expects none.
type watch struct{}

func (watch) OnBrokerRead(meta kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) && errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "LOST connection to broker %d while reading the answer to key %d: %v\n", meta.NodeID, key, err)
	}
}

func common(extra ...kgo.Opt) []kgo.Opt {
	level := kgo.LogLevelError
	if connected.Protocol != "" { // why a connection can't be opened is a warning
		level = kgo.LogLevelWarn
	}
	logger := kgo.BasicLogger(os.Stderr, level, nil)
	opts := append(connected.options(), kgo.WithLogger(logger), kgo.WithHooks(watch{}))
	return append(opts, extra...)
}

// ---------------------------------------------------------------------------------------------------- producing

func produce(ctx context.Context, r *request) (any, error) {
	opts := common(kgo.ProducerLinger(millis(5)), kgo.ProducerBatchCompression(codecs[r.Compression]()))
	switch r.Acks {
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	if r.MayCreate {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	if len(r.Records) > 0 && r.Records[0].Partition != nil {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []*kgo.Record{}
	for _, p := range r.Records {
		record := &kgo.Record{Topic: r.Topic, Value: []byte(p.Value)}
		if p.Key != nil {
			record.Key = []byte(*p.Key)
		}
		if p.Partition != nil {
			record.Partition = *p.Partition
		}
		if p.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*p.Timestamp)
		}
		for _, header := range p.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		records = append(records, record)
	}
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	rows := [][]any{}
	for _, record := range records {
		rows = append(rows, []any{record.Partition, record.Offset})
	}
	return rows, nil
}

type transactionalProducer struct {
	client *kgo.Client
	open   bool
}

var transactionalProducers = map[string]*transactionalProducer{}

func transactional(ctx context.Context, r *request) (any, error) {
	client, err := kgo.NewClient(common(
		kgo.TransactionalID(r.TransactionalID), kgo.TransactionTimeout(millis(r.TimeoutMS)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err != nil {
		return nil, err
	}
	transactionalProducers[r.Name] = &transactionalProducer{client, false}
	_, _, err = client.ProducerID(ctx)
	return nil, err
}

func transaction(ctx context.Context, r *request) (any, error) {
	one := transactionalProducers[r.Name]
	if !one.open {
		if err := one.client.BeginTransaction(); err != nil {
			return nil, err
		}
		one.open = true
	}
	for _, p := range r.Records {
		record := &kgo.Record{Topic: p.Topic, Value: []byte(p.Value), Partition: *p.Partition}
		if err := one.client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return nil, err
		}
	}
	if r.End == "open" {
		return nil, nil
	}
	one.open = false
	return nil, one.client.EndTransaction(ctx, kgo.TransactionEndTry(r.End == "commit"))
}

func transform(ctx context.Context, r *request) (any, error) {
	session, err := kgo.NewGroupTransactSession(common(
		kgo.TransactionalID(r.TransactionalID), kgo.TransactionTimeout(millis(r.TimeoutMS)),
		kgo.ConsumerGroup(*r.Group), kgo.ConsumeTopics(r.Source), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(millis(r.SessionTimeoutMS)),
		kgo.HeartbeatInterval(millis(300)), kgo.RequireStableFetchOffsets(), kgo.FetchMaxWait(millis(100)),
	)...)
	if err != nil {
		return nil, err
	}
	moved, turn := 0, 0
	for {
		fetches := session.PollRecords(ctx, 5)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		for _, record := range records {
			if err := session.ProduceSync(ctx, &kgo.Record{Topic: r.Sink, Value: record.Value}).FirstErr(); err != nil {
				return nil, err
			}
		}
		if moved >= r.Count {
			return moved, nil // what is open stays so
		}
		turn++
		committed, err := session.End(ctx, kgo.TransactionEndTry(turn%3 != 0))
		if err != nil {
			return nil, err
		}
		if committed {
			moved += len(records)
		}
		if moved >= r.Count && r.Leave != "open" {
			session.Close()
			return moved, nil
		}
	}
}

// ---------------------------------------------------------------------------------------------------- administration

func createTopic(ctx context.Context, r *request) (any, error) {
	_, err := admin.CreateTopic(ctx, r.PartitionRows.count, 1, nil, r.Topic)
	return nil, err
}

func createPartitions(ctx context.Context, r *request) (any, error) {
	response, err := admin.UpdatePartitions(ctx, r.Total, r.Topic)
	return nil, errors.Join(err, response.Error())
}

func deleteRecords(ctx context.Context, r *request) (any, error) {
	offsets := kadm.Offsets{}
	offsets.AddOffset(r.Topic, r.Partition, r.Before, -1)
	response, err := admin.DeleteRecords(ctx, offsets)
	return nil, errors.Join(err, response.Error())
}

func committedRows(ctx context.Context, group string, wanted []partition) (any, error) {
	found, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	rows := []offsetRow{}
	for _, p := range wanted {
		row := offsetRow{p, -1, ""}
		if c, ok := found.Lookup(p.topic, p.index); ok {
			if c.Err != nil {
				return nil, c.Err
			}
			row.offset, row.metadata = c.At, c.Metadata
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func listGroups(ctx context.Context) (any, error) {
	groups, err := admin.ListGroups(ctx)
	return groups.Groups(), err
}

func describeGroup(ctx context.Context, r *request) (any, error) {
	groups, err := admin.DescribeGroups(ctx, *r.Group)
	if err != nil {
		return nil, err
	}
	group := groups[*r.Group]
	rows := []map[string]any{}
	for _, m := range group.Members {
		assigned := []partition{}
		if consumer, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range consumer.Topics {
				for _, index := range topic.Partitions {
					assigned = append(assigned, partition{topic.Topic, index})
				}
			}
		}
		rows = append(rows, map[string]any{"client_id": m.ClientID, "instance": m.InstanceID, "assignment": assigned})
	}
	return map[string]any{"state": group.State, "protocol": group.Protocol, "members": rows}, group.Err
}

func deleteGroup(ctx context.Context, r *request) (any, error) {
	response, err := admin.DeleteGroup(ctx, *r.Group)
	return nil, errors.Join(err, response.Err)
}

func hello() (any, error) {
	version := "?"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "github.com/twmb/franz-go" {
				version = dependency.Version
			}
		}
	}
	return map[string]string{"client": "franz-go", "version": version}, nil
}

func perform(ctx context.Context, r *request) (any, error) {
	switch r.Op {
	case "hello":
		return hello()
	case "connect":
		return nil, connect(r.connection)
	case "produce":
		return produce(ctx, r)
	case "transactional":
		return transactional(ctx, r)
	case "transaction":
		return transaction(ctx, r)
	case "transform":
		return transform(ctx, r)
	case "create_topic":
		return createTopic(ctx, r)
	case "create_partitions":
		return createPartitions(ctx, r)
	case "delete_records":
		return deleteRecords(ctx, r)
	case "group_offsets":
		return committedRows(ctx, *r.Group, r.PartitionRows.rows)
	case "list_groups":
		return listGroups(ctx)
	case "describe_group":
		return describeGroup(ctx, r)
	case "delete_group":
		return deleteGroup(ctx, r)
	case "start":
		return start(ctx, r)
	}
	m := members[r.Member]
	switch r.Op {
	case "state":
		return m.state()
	case "commit":
		return m.commit(ctx, r)
	case "committed":
		return committedRows(ctx, *m.options.Group, r.PartitionRows.rows)
	case "seek_timestamp":
		return m.seekTimestamp(ctx, r)
	case "leave":
		return m.leave()
	}
	return nil, fmt.Errorf("no operation %q", r.Op)
}

func main() {
	if err := connect(connection{Bootstrap: os.Args[1]}); err != nil {
		panic(err)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		r := &request{}
		if err := json.Unmarshal(line, r); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		value, err := perform(ctx, r)
		answer(r, value, err)
		cancel()
	}
}
