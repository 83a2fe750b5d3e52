package brokersim_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	brokersim "broker-sim/tests/from_go"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const group, patience = "billing", 20 * time.Second

func TestMain(m *testing.M) { os.Exit(brokersim.Main(m)) }

func TestReceivedRequests(t *testing.T) {
	kafka := orders(t, brokersim.Options{})
	app := consumer(t, kafka, "app-1")
	poll(t, app)
	if err := await(t, "commit", commit(app)); err != nil {
		t.Fatal(err)
	}
	commits := kafka.AwaitRequests(1, "OffsetCommit", brokersim.Params{"client_id": "app-1"}, patience)
	if len(commits) != 1 || commits[0].Group != group || commits[0].Error != "" || !commits[0].Answered {
		t.Fatalf("one commit of %s was expected: %+v", group, commits)
	}
	if others := kafka.Requests("OffsetCommit", brokersim.Params{"client_id": "app-2"}); len(others) != 0 {
		t.Fatalf("app-2 has committed: %+v", others)
	}
}

// orders is a cluster with a topic of 6 partitions and 600 records.
func orders(t *testing.T, options brokersim.Options) *brokersim.Cluster {
	options.Topics = map[string]int{"orders": 6}
	kafka := brokersim.New(t, options)
	kafka.Fill("orders", 600)
	return kafka
}

// consumer is the application under test, here a bare consumer of orders; it leaves its group when the test ends.
func consumer(t *testing.T, kafka *brokersim.Cluster, name string) *kgo.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap...), kgo.ClientID(name), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(200*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// poll waits for records: the client has joined its group then.
func poll(t *testing.T, client *kgo.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if fetches := client.PollFetches(ctx); fetches.Err() != nil {
		t.Fatalf("waited %s for records of orders: %v", patience, fetches.Err())
	}
}

// commit commits what was polled; the channel tells how it ended.
func commit(client *kgo.Client) <-chan error {
	done := make(chan error, 1)
	go client.CommitOffsetsSync(context.Background(), client.UncommittedOffsets(),
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			if err == nil {
				err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
			}
			done <- err
		})
	return done
}

// await waits for how something ended.
func await(t *testing.T, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
		return nil
	}
}

func TestACommitWaitsOutAStuckPartitionOfKafka41(t *testing.T) {
	t.Parallel()
	kafka := orders(t, brokersim.Options{Brokers: 3, Clock: "manual"})
	client := consumer(t, kafka, "app")
	poll(t, client)

	jam := kafka.SetState(brokersim.OffsetsLog(group), "stuck", nil)
	done := commit(client)
	jam.AwaitPending(1)                                                   // appended, not committed, not answered
	kafka.Advance(5 * time.Second)                                        // offsets.commit.timeout.ms of the broker
	kafka.AwaitAnswer("OffsetCommit", group, "COORDINATOR_NOT_AVAILABLE") // franz-go tries again by itself
	jam.AwaitPending(1)
	jam.Heal()

	if err := await(t, "the commit", done); err != nil {
		t.Error(err)
	}
	if now := kafka.Group(group); now.Generation != 1 {
		t.Errorf("somebody had to rebalance: generation %d", now.Generation)
	}
}

func TestACommitFailsOnAStuckPartitionOfKafka39(t *testing.T) {
	t.Parallel()
	kafka := orders(t, brokersim.Options{Brokers: 3, AsVersion: "3.9", Clock: "manual"})
	client := consumer(t, kafka, "app")
	poll(t, client)

	jam := kafka.SetState(brokersim.OffsetsLog(group), "stuck", nil)
	done := commit(client)
	jam.AwaitPending(1)
	kafka.Advance(5 * time.Second)
	if err := await(t, "the commit", done); !errors.Is(err, kerr.RequestTimedOut) {
		t.Errorf("the old coordinator's REQUEST_TIMED_OUT reaches the application, not %v", err)
	}
	jam.Heal()
	if err := await(t, "a second commit", commit(client)); err != nil {
		t.Error(err)
	}
}

func TestALostHeartbeatIsSentAgain(t *testing.T) {
	t.Parallel()
	kafka := orders(t, brokersim.Options{})
	lost := kafka.AddFault(brokersim.Params{"api": "Heartbeat", "group": group, "drop": true, "times": 1})
	client := consumer(t, kafka, "app")
	poll(t, client)

	lost.AwaitHits(1)
	kafka.AwaitAnswer("Heartbeat", group, "NONE")
	if now := kafka.Group(group); now.Generation != 1 || now.State != "Stable" {
		t.Errorf("%s in generation %d", now.State, now.Generation)
	}
	if err := lost.Remove(); err != nil {
		t.Error(err)
	}
}

func TestAMemberWithoutNetworkIsOutAfterItsSession(t *testing.T) {
	t.Parallel()
	kafka := orders(t, brokersim.Options{Clock: "manual"})
	consumer(t, kafka, "first")
	consumer(t, kafka, "second")
	before := kafka.AwaitReading(group, 2, patience).Generation

	cut := kafka.AddFault(brokersim.Params{"client_id": "second", "drop": true})
	cut.AwaitHits(1)
	kafka.Advance(44*time.Second, "second")
	if now := kafka.Group(group); now.Generation != before {
		t.Errorf("generation %d before 45 s, the session, were over", now.Generation)
	}
	if fired := strings.Join(kafka.Advance(2*time.Second, "second"), "; "); !strings.Contains(fired, "session") {
		t.Errorf("no session ended: %s", fired)
	}
	alone := kafka.AwaitStable(group, 1, patience)
	if alone.Members[0].ClientID != "first" {
		t.Errorf("%s is left", alone.Members[0].ClientID)
	}
	if err := cut.Remove(); err != nil {
		t.Error(err)
	}
	kafka.AwaitStable(group, 2, patience) // it is back
}

func TestACoordinatorThatMovesIsFollowed(t *testing.T) {
	t.Parallel()
	kafka := orders(t, brokersim.Options{Brokers: 3})
	client := consumer(t, kafka, "app")
	poll(t, client)
	next := kafka.Group(group).Coordinator%3 + 1

	jam := kafka.SetState(brokersim.OffsetsLog(group), "stuck", nil)
	done := commit(client)
	jam.AwaitPending(1)
	kafka.Do("POST", "/logs/"+brokersim.OffsetsLog(group)+"/leader", brokersim.Params{"broker": next}, nil)
	kafka.AwaitAnswer("OffsetCommit", group, "NOT_COORDINATOR")
	jam.Heal()

	if err := await(t, "the commit", done); err != nil {
		t.Error(err)
	}
	if now := kafka.Group(group); now.Coordinator != next || now.Generation != 1 {
		t.Errorf("coordinator %d, generation %d", now.Coordinator, now.Generation)
	}
}

func TestAWaitInVainTellsTheGroupsHistory(t *testing.T) {
	t.Parallel()
	kafka := orders(t, brokersim.Options{})
	poll(t, consumer(t, kafka, "app"))
	var failed *brokersim.Error
	err := kafka.Try("GET", "/groups/billing/wait", brokersim.Params{"members": 2, "timeout": "50ms"}, nil)
	if !errors.As(err, &failed) || failed.Kind != "WaitTimeout" || !strings.Contains(failed.Text, "app") {
		t.Errorf("%v", err)
	}
	if told := kafka.Explain(group); !strings.Contains(told, "Generation 1 began because app") {
		t.Error(told)
	}
}

func TestTopicsHaveTheirSettings(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.Options{
		Topics: map[string]int{"orders": 6},
		TopicConfigs: map[string]map[string]string{
			"orders": {"cleanup.policy": "compact"},
			"audit":  {"retention.ms": "1000"},
		},
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if policy := setting(t, client, "orders", "cleanup.policy"); policy != "compact" {
		t.Error(policy)
	}
	if retention := setting(t, client, "audit", "retention.ms"); retention != "1000" {
		t.Error(retention)
	}
	for topic, partitions := range map[string]int{"orders": 6, "audit": 1} {
		var told struct{ Partitions int }
		if kafka.Do("GET", "/topics/"+topic, nil, &told); told.Partitions != partitions {
			t.Errorf("%s: %+v", topic, told)
		}
	}
}

// setting asks for one of a topic's settings.
func setting(t *testing.T, client *kgo.Client, topic, name string) string {
	t.Helper()
	asked := kmsg.NewDescribeConfigsRequestResource()
	asked.ResourceType, asked.ResourceName, asked.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{name}
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, asked)
	response, err := request.RequestWith(context.Background(), client)
	if err != nil {
		t.Fatal(err)
	}
	return *response.Resources[0].Configs[0].Value
}

func TestAClientAuthenticatesOverTLS(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.Options{SecurityProtocol: "SASL_SSL", Users: map[string]string{"alice": "secret"}})
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(kafka.CA)) {
		t.Fatalf("no certificate in %q", kafka.CA)
	}
	for password, works := range map[string]bool{"secret": true, "wrong": false} {
		client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap...), kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}),
			kgo.SASL(scram.Auth{User: "alice", Pass: password}.AsSha512Mechanism()), kgo.RetryTimeout(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := client.Ping(ctx); (err == nil) != works {
			t.Errorf("with the password %s: %v", password, err)
		}
		cancel()
		client.Close()
	}
}
