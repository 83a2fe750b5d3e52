// Command sarama-transform reads a topic as a member of a group and writes
// each record, marked, to another one in transactions that hold its offset.
//
//	sarama-transform BOOTSTRAP GROUP IN OUT KAFKA-VERSION
//
// It says RUNNING when it has partitions, and ends with its stdin. Sarama
// tells no generation with a transaction's offsets (KIP-447), so each
// partition has a transactional id of its own: who takes it over fences whoever
// had it before.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type transformer struct {
	bootstrap []string
	group     string
	out       string
	config    func() *sarama.Config
	said      sync.Once
}

func (t *transformer) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (t *transformer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (t *transformer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	config := t.config()
	config.Producer.Transaction.ID = fmt.Sprintf("%s-%s-%d", t.group, claim.Topic(), claim.Partition())
	producer, err := sarama.NewAsyncProducer(t.bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	go func() {
		for err := range producer.Errors() {
			log.Println("produce:", err)
		}
	}()
	// what is committed is asked for again: the transaction of the last owner
	// is over only now that it is fenced
	next, err := t.committed(claim)
	if err != nil {
		return err
	}
	t.said.Do(func() { fmt.Println("RUNNING") })
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if message.Offset < next {
				continue
			}
			if err := t.one(producer, message); err != nil {
				return err
			}
		}
	}
}

func (t *transformer) committed(claim sarama.ConsumerGroupClaim) (int64, error) {
	admin, err := sarama.NewClusterAdmin(t.bootstrap, t.config())
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	answer, err := admin.ListConsumerGroupOffsets(t.group, map[string][]int32{claim.Topic(): {claim.Partition()}})
	if err != nil {
		return 0, err
	}
	return answer.GetBlock(claim.Topic(), claim.Partition()).Offset, nil
}

func (t *transformer) one(producer sarama.AsyncProducer, message *sarama.ConsumerMessage) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	text := string(message.Key) + "=" + string(message.Value)
	producer.Input() <- &sarama.ProducerMessage{Topic: t.out, Value: sarama.StringEncoder(text)}
	if err := producer.AddMessageToTxn(message, t.group, nil); err != nil {
		return errors.Join(err, producer.AbortTxn())
	}
	return producer.CommitTxn()
}

func main() {
	bootstrap, group, in, out := strings.Split(os.Args[1], ","), os.Args[2], os.Args[3], os.Args[4]
	version, err := sarama.ParseKafkaVersion(os.Args[5])
	if err != nil {
		log.Fatal(err)
	}
	config := func() *sarama.Config {
		c := sarama.NewConfig()
		c.Version = version
		c.Consumer.IsolationLevel = sarama.ReadCommitted
		c.Consumer.Offsets.Initial = sarama.OffsetOldest
		c.Consumer.Offsets.AutoCommit.Enable = false
		c.Consumer.Group.Session.Timeout = 6 * time.Second
		c.Consumer.Group.Heartbeat.Interval = time.Second
		c.Producer.Idempotent = true
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Producer.Transaction.Timeout = 10 * time.Second
		c.Producer.Transaction.Retry.Max = 200
		c.Producer.Transaction.Retry.Backoff = 50 * time.Millisecond
		c.Net.MaxOpenRequests = 1
		return c
	}
	plain := config()
	plain.Producer.Idempotent = false
	consumer, err := sarama.NewConsumerGroup(bootstrap, group, plain)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	t := &transformer{bootstrap: bootstrap, group: group, out: out, config: config}
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{in}, t); err != nil {
			log.Println("consume:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	consumer.Close()
}
