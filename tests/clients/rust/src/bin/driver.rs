//! A driver for rdkafka with the operations that the tests of security need: connect, produce, start, state, leave. The protocol is the
//! one that python/line_protocol.py describes.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{json, Value};

const SETTINGS: [(&str, &str); 7] = [
    ("bootstrap.servers", "bootstrap"),
    ("security.protocol", "protocol"),
    ("sasl.mechanism", "mechanism"),
    ("sasl.username", "user"),
    ("sasl.password", "password"),
    ("ssl.ca.location", "ca"),
    ("ssl.certificate.location", "certificate"),
];

#[derive(Default)]
struct Seen {
    records: Mutex<Vec<Value>>,
    errors: Mutex<Vec<Value>>,
}

impl Seen {
    fn failed(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        self.errors.lock().unwrap().push(json!({"type": format!("{code:?}"), "message": reason}));
    }
}

struct Reporting(Arc<Seen>);

impl ClientContext for Reporting {
    fn error(&self, error: KafkaError, reason: &str) {
        self.0.failed(&error, reason);
    }
}

impl ConsumerContext for Reporting {}

struct Member {
    seen: Arc<Seen>,
    left: Arc<AtomicBool>,
    polling: Option<JoinHandle<()>>,
}

fn config(connection: &Value) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (setting, field) in SETTINGS {
        if let Some(value) = connection[field].as_str() {
            config.set(setting, value);
        }
    }
    if let Some(file) = connection["certificate"].as_str() {
        config.set("ssl.key.location", file);
    }
    if connection["mechanism"] == "OAUTHBEARER" {
        config.set("enable.sasl.oauthbearer.unsecure.jwt", "true");
        config.set("sasl.oauthbearer.config", format!("principal={}", connection["user"].as_str().unwrap()));
    }
    config
}

fn produce(connection: &Value, request: &Value) -> Result<Value, KafkaError> {
    let producer: BaseProducer = config(connection).create()?;
    for record in request["records"].as_array().unwrap() {
        let value = record["value"].as_str().unwrap();
        let to = BaseRecord::<str, str>::to(request["topic"].as_str().unwrap()).payload(value);
        producer.send(to).map_err(|(error, _)| error)?;
    }
    producer.flush(Duration::from_secs(20))?;
    Ok(Value::Null)
}

fn start(connection: &Value, request: &Value) -> Result<Member, KafkaError> {
    let seen = Arc::new(Seen::default());
    let consumer: BaseConsumer<Reporting> = config(connection)
        .set("client.id", request["member"].as_str().unwrap())
        .set("group.id", request["group"].as_str().unwrap())
        .set("auto.offset.reset", request["reset"].as_str().unwrap())
        .create_with_context(Reporting(seen.clone()))?;
    consumer.subscribe(&[request["topics"][0].as_str().unwrap()])?;
    let left = Arc::new(AtomicBool::new(false));
    let (sees, leaves) = (seen.clone(), left.clone());
    let polling = thread::spawn(move || {
        while !leaves.load(Ordering::Relaxed) {
            match consumer.poll(Duration::from_millis(50)) {
                Some(Ok(record)) => {
                    let value = String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned();
                    let row = json!([record.topic(), record.partition(), record.offset(), null, value, 0]);
                    sees.records.lock().unwrap().push(row);
                }
                Some(Err(error)) => sees.failed(&error, &error.to_string()),
                None => {}
            }
        }
    });
    Ok(Member { seen, left, polling: Some(polling) })
}

fn main() {
    let mut connection = Value::Null;
    let mut members: HashMap<String, Member> = HashMap::new();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let name = request["member"].as_str().unwrap_or_default().to_string();
        let result = match request["op"].as_str().unwrap() {
            "hello" => Ok(json!("rdkafka")),
            "connect" => {
                connection = request.clone();
                Ok(Value::Null)
            }
            "produce" => produce(&connection, &request),
            "start" => start(&connection, &request).map(|member| {
                members.insert(name, member);
                Value::Null
            }),
            "state" => {
                let seen = &members[&name].seen;
                Ok(json!({"records": *seen.records.lock().unwrap(), "errors": *seen.errors.lock().unwrap()}))
            }
            "leave" => {
                let mut member = members.remove(&name).unwrap();
                member.left.store(true, Ordering::Relaxed);
                member.polling.take().unwrap().join().unwrap();
                Ok(Value::Null)
            }
            other => panic!("no operation {other}"),
        };
        let reply = match result {
            Ok(value) => json!({"id": request["id"], "ok": value}),
            Err(error) => json!({"id": request["id"], "error": {"type": "KafkaError", "message": error.to_string()}}),
        };
        println!("{reply}");
    }
}
