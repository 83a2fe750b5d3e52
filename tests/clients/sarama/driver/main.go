// Driver for sarama with the operations that tests of security need: connect, produce, start, state, leave. The protocol is the one that
// python/line_protocol.py describes; connect has one field more, handshake, the version of SaslHandshake.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type connection struct {
	Bootstrap   string `json:"bootstrap"`
	Protocol    string `json:"protocol"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Handshake   int16  `json:"handshake"`
}

type request struct {
	ID      int      `json:"id"`
	Op      string   `json:"op"`
	Member  string   `json:"member"`
	Group   string   `json:"group"`
	Topics  []string `json:"topics"`
	Topic   string   `json:"topic"`
	Records []struct {
		Value string `json:"value"`
	} `json:"records"`
	connection
}

type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

var (
	connected connection
	members   = map[string]*member{}
)

func describe(err error) failure { return failure{fmt.Sprintf("%T", err), err.Error()} }

func config() (*sarama.Config, error) {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Return.Errors = true
	c.Producer.Return.Successes = true
	c.Metadata.Retry.Max = 1
	return c, connected.apply(c)
}

func produce(r *request) error {
	c, err := config()
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(strings.Split(connected.Bootstrap, ","), c)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, record := range r.Records {
		message := &sarama.ProducerMessage{Topic: r.Topic, Value: sarama.StringEncoder(record.Value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	return nil
}

type member struct {
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	done    chan struct{}
	lock    sync.Mutex
	records [][]any
	errors  []failure
}

func start(r *request) error {
	c, err := config()
	if err != nil {
		return err
	}
	c.ClientID = r.Member
	group, err := sarama.NewConsumerGroup(strings.Split(connected.Bootstrap, ","), r.Group, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: group, cancel: cancel, done: make(chan struct{})}
	members[r.Member] = m
	go func() {
		for err := range group.Errors() {
			m.failed(err)
		}
	}()
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, r.Topics, m); err != nil {
				m.failed(err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return nil
}

func (m *member) failed(err error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.errors = append(m.errors, describe(err))
}

func (m *member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for r := range claim.Messages() {
		m.lock.Lock()
		m.records = append(m.records, []any{r.Topic, r.Partition, r.Offset, nil, string(r.Value), r.Timestamp.UnixMilli()})
		m.lock.Unlock()
		session.MarkMessage(r, "")
	}
	return nil
}

func (m *member) state() any {
	m.lock.Lock()
	defer m.lock.Unlock()
	return map[string]any{"records": append([][]any{}, m.records...), "errors": append([]failure{}, m.errors...)}
}

func (m *member) leave() error {
	m.cancel()
	<-m.done
	return m.group.Close()
}

func perform(r *request) (any, error) {
	switch r.Op {
	case "hello":
		return "sarama", nil
	case "connect":
		connected = r.connection
		return nil, nil
	case "produce":
		return nil, produce(r)
	case "start":
		return nil, start(r)
	case "state":
		return members[r.Member].state(), nil
	case "leave":
		return nil, members[r.Member].leave()
	}
	return nil, fmt.Errorf("no operation %q", r.Op)
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		r := &request{}
		if err := json.Unmarshal(in.Bytes(), r); err != nil {
			panic(err)
		}
		value, err := perform(r)
		reply := map[string]any{"id": r.ID, "ok": value}
		if err != nil {
			reply = map[string]any{"id": r.ID, "error": describe(err)}
		}
		line, _ := json.Marshal(reply)
		os.Stdout.Write(append(line, '\n'))
	}
}
