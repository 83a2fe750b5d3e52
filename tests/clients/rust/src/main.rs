//! A member of a consumer group (`group.protocol=consumer`) that says what happens to it, a line each: `assigned 0 1`, `revoked 0 1`,
//! `read <partition> <value>`, `committed`, `left`. Commits what it read at each line on stdin, and leaves when stdin ends.

use std::env;
use std::io::{self, BufRead};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionList;

struct Telling;

fn partitions(list: &TopicPartitionList) -> String {
    let mut numbers: Vec<i32> = list.elements().iter().map(|one| one.partition()).collect();
    numbers.sort();
    numbers.iter().map(|one| format!(" {one}")).collect()
}

impl ClientContext for Telling {}

impl ConsumerContext for Telling {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            println!("revoked{}", partitions(list));
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            println!("assigned{}", partitions(list));
        }
    }
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let consumer: BaseConsumer<Telling> = ClientConfig::new()
        .set("bootstrap.servers", &args[1])
        .set("group.id", &args[2])
        .set("group.protocol", "consumer")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create_with_context(Telling)
        .expect("a consumer");
    consumer.subscribe(&[&args[3]]).expect("a subscription");
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            said.send(line.is_ok()).ok();
        }
    });
    loop {
        match consumer.poll(Duration::from_millis(50)) {
            Some(Ok(record)) => {
                let value = String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned();
                println!("read {} {}", record.partition(), value);
            }
            Some(Err(error)) => println!("error {error}"),
            None => {}
        }
        match heard.try_recv() {
            Ok(_) => {
                consumer.commit_consumer_state(CommitMode::Sync).expect("a commit");
                println!("committed");
            }
            Err(mpsc::TryRecvError::Disconnected) => break,
            Err(mpsc::TryRecvError::Empty) => {}
        }
    }
    drop(consumer);
    println!("left");
}
