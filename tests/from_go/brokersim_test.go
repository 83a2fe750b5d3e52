// Package from_go is a module that uses packages/go: franz-go's client is led through incidents.
package from_go

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	brokersim "github.com/broker-sim/broker-sim/packages/go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const group, patience = "billing", 20 * time.Second

func TestReceivedRequests(t *testing.T) {
	kafka := orders(t)
	app := consumer(t, kafka, "app-1")
	poll(t, app)
	if err := await(t, "commit", commit(app)); err != nil {
		t.Fatal(err)
	}
	commits := kafka.AwaitRequests(brokersim.RequestWaitParams{API: []string{"OffsetCommit"}, ClientID: "app-1", Timeout: patience})
	if len(commits) != 1 || commits[0].Group != group || commits[0].Error != "" || !commits[0].Answered {
		t.Fatalf("one commit of %s was expected: %+v", group, commits)
	}
	if others := kafka.Requests(brokersim.RequestListParams{API: []string{"OffsetCommit"}, ClientID: "app-2"}); len(others) != 0 {
		t.Fatalf("app-2 has committed: %+v", others)
	}
}

// orders is a cluster with a topic of 6 partitions and 600 records.
func orders(t *testing.T, opts ...brokersim.Opt) *brokersim.TestCluster {
	kafka := brokersim.New(t, append(opts, brokersim.SeedTopics(6, "orders"))...)
	kafka.Fill("orders", 600)
	return kafka
}

// consumer is the application under test, here a bare consumer of orders; it leaves its group when the test ends.
func consumer(t *testing.T, kafka *brokersim.TestCluster, name string) *kgo.Client {
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...), kgo.ClientID(name), kgo.ConsumerGroup(group),
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
	kafka := orders(t, brokersim.NumBrokers(3), brokersim.Clock("manual"))
	client := consumer(t, kafka, "app")
	poll(t, client)

	jam := kafka.SetState(brokersim.OffsetsLog(group), "stuck", brokersim.StateSetParams{})
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
	kafka := orders(t, brokersim.NumBrokers(3), brokersim.AsVersion("3.9"), brokersim.Clock("manual"))
	client := consumer(t, kafka, "app")
	poll(t, client)

	jam := kafka.SetState(brokersim.OffsetsLog(group), "stuck", brokersim.StateSetParams{})
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

func TestACommitSurvivesTheIncidentOfAFile(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.ForScenario("testdata/stuck.yaml"), brokersim.Clock("manual"))
	client := consumer(t, kafka, "app")
	poll(t, client)

	kafka.Scenario.AwaitStep("stuck", patience)
	done := commit(client)
	if _, err := kafka.LogWait(brokersim.OffsetsLog(group), brokersim.LogWaitParams{Pending: 1, Timeout: patience}); err != nil {
		t.Fatal(err)
	}
	kafka.Advance(5 * time.Second) // offsets.commit.timeout.ms of the broker
	kafka.Scenario.AwaitStep("a commit fails", patience)
	kafka.Advance(35 * time.Second) // the 40 s are over
	if err := await(t, "the commit", done); err != nil {
		t.Error(err)
	}
	if end := kafka.Scenario.AwaitEnd(patience); end.Verdict != "held" || len(end.Results) != 2 {
		t.Errorf("%+v", end)
	}
}

func TestWhatAFileHasBrokenIsMended(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.NumBrokers(3))
	incident := kafka.StartScenario("testdata/broker-dies.yaml", brokersim.ScenarioStartParams{})
	client := consumer(t, kafka, "app")
	poll(t, client)
	incident.AwaitStep("the broker is down", patience)
	if down, err := kafka.BrokerGet(2); err != nil || down.Alive {
		t.Errorf("%+v, %v", down, err)
	}
	incident.AwaitEnd(2 * patience)
	if err := incident.End(); err != nil {
		t.Error(err)
	}
	if up, err := kafka.BrokerGet(2); err != nil || !up.Alive {
		t.Errorf("%+v, %v", up, err)
	}
}

func TestALineThatCanNotBeIsNamed(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t)
	text, err := os.ReadFile("testdata/crash.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = kafka.ScenarioStart(brokersim.ScenarioStartParams{Name: "crash.yaml", File: string(text)})
	if err == nil || !strings.Contains(err.Error(), "crash.yaml:4: the client app is one that the test starts") {
		t.Error(err)
	}
	if _, err := brokersim.NewCluster(brokersim.ForScenario("testdata/nowhere.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestALostHeartbeatIsSentAgain(t *testing.T) {
	t.Parallel()
	kafka := orders(t)
	lost := kafka.AddFault(brokersim.FaultAddParams{API: []string{"Heartbeat"}, Group: group, Drop: true, Times: 1})
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
	kafka := orders(t, brokersim.Clock("manual"))
	consumer(t, kafka, "first")
	consumer(t, kafka, "second")
	before := kafka.AwaitReading(group, 2, patience).Generation

	cut := kafka.AddFault(brokersim.FaultAddParams{ClientID: "second", Drop: true})
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
	kafka := orders(t, brokersim.NumBrokers(3))
	client := consumer(t, kafka, "app")
	poll(t, client)
	next := int(kafka.CoordinatorFor(group))%3 + 1

	jam := kafka.SetState(brokersim.OffsetsLog(group), "stuck", brokersim.StateSetParams{})
	done := commit(client)
	jam.AwaitPending(1)
	if _, err := kafka.LeaderMove(brokersim.OffsetsLog(group), brokersim.LeaderMoveParams{Broker: &next}); err != nil {
		t.Fatal(err)
	}
	kafka.AwaitAnswer("OffsetCommit", group, "NOT_COORDINATOR")
	jam.Heal()

	if err := await(t, "the commit", done); err != nil {
		t.Error(err)
	}
	if now := kafka.Group(group); *now.Coordinator != int64(next) || now.Generation != 1 {
		t.Errorf("coordinator %d, generation %d", *now.Coordinator, now.Generation)
	}
}

func TestAWaitInVainTellsTheGroupsHistory(t *testing.T) {
	t.Parallel()
	kafka := orders(t)
	poll(t, consumer(t, kafka, "app"))
	var failed *brokersim.Error
	_, err := kafka.GroupWait(group, brokersim.GroupWaitParams{Members: brokersim.Ptr(2), Timeout: 50 * time.Millisecond})
	if !errors.As(err, &failed) || failed.Kind != "WaitTimeout" || !strings.Contains(failed.Text, "app") {
		t.Errorf("%v", err)
	}
	if told := kafka.Explain(group); !strings.Contains(told, "Generation 1 began because app") {
		t.Error(told)
	}
}

func TestTopicsHaveTheirSettings(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.SeedTopics(6, "orders"),
		brokersim.TopicConfigs("orders", map[string]string{"cleanup.policy": "compact"}),
		brokersim.TopicConfigs("audit", map[string]string{"retention.ms": "1000"}))
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...))
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
		if found, err := kafka.TopicGet(topic); err != nil || int(found.Partitions) != partitions {
			t.Errorf("%s: %+v, %v", topic, found, err)
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
	kafka := brokersim.New(t, brokersim.EnableSASL(), brokersim.TLS(), brokersim.User("SCRAM-SHA-512", "alice", "secret"))
	for password, works := range map[string]bool{"secret": true, "wrong": false} {
		client, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...), kgo.DialTLSConfig(kafka.TLSConfig()),
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

func TestRecordsAreRead(t *testing.T) {
	t.Parallel()
	kafka := brokersim.New(t, brokersim.SeedTopics(1, "bills"))
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.Produce(context.Background(), &kgo.Record{Topic: "bills", Value: []byte("one")}, nil)
	client.Produce(context.Background(), &kgo.Record{Topic: "bills", Key: []byte{}, Value: []byte("two")}, nil)
	bills := kafka.AwaitRecords("bills", 2, patience)
	if bills[0].Key != nil || *bills[0].Value != "one" || bills[1].Key == nil || *bills[1].Value != "two" {
		t.Errorf("%+v", bills)
	}
}

// What users of kfake write, with the import alone changed.
func TestFunctionsOfKfake(t *testing.T) {
	t.Parallel()
	kafka, err := brokersim.NewCluster(brokersim.NumBrokers(2), brokersim.SeedTopics(3, "orders", "bills"),
		brokersim.Listeners("PLAINTEXT://127.0.0.1:0", "EXTERNAL://127.0.0.1:0"), brokersim.BrokerConfigs(map[string]string{"message.max.bytes": "2000"}))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	if len(kafka.ListenAddrs()) != 2 || len(kafka.ListenerAddrs("EXTERNAL")) != 2 || kafka.ListenerAddrs("SASL_SSL") != nil {
		t.Errorf("%v", kafka.Created)
	}
	if err := kafka.CreateTopic("audit", 2, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Error(err)
	}
	other := 3 - kafka.LeaderFor("audit", 1)
	if err := kafka.MoveTopicPartition("audit", 1, other); err != nil || kafka.LeaderFor("audit", 1) != other {
		t.Errorf("leader %d, %v", kafka.LeaderFor("audit", 1), err)
	}
	if err := kafka.DeleteTopic("audit"); err != nil || kafka.LeaderFor("audit", 1) != -1 {
		t.Errorf("leader %d, %v", kafka.LeaderFor("audit", 1), err)
	}
	if coordinator := kafka.CoordinatorFor("no member's"); coordinator < 1 || coordinator > 2 {
		t.Errorf("coordinator %d", coordinator)
	}
}

func TestWhatIsWrongWithOptionsIsSaid(t *testing.T) {
	t.Parallel()
	for text, opts := range map[string][]brokersim.Opt{
		"do not follow on each other": {brokersim.NumBrokers(2), brokersim.Ports(9092, 9094)},
		"2 ports for 1 brokers":       {brokersim.Ports(9092, 9093)},
		"both say where":              {brokersim.Ports(9092), brokersim.Listeners("PLAINTEXT://127.0.0.1:0")},
		"two passwords":               {brokersim.EnableSASL(), brokersim.User("PLAIN", "alice", "a"), brokersim.Superuser("PLAIN", "alice", "b")},
		"num.partitions":              {brokersim.DefaultNumPartitions(0)},
	} {
		if _, err := brokersim.NewCluster(opts...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in: %v", text, err)
		}
	}
}
