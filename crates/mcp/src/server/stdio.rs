//! The standard input and output of one client, with the batches of protocol version 2025-03-26: the messages of a batch
//! are served one by one, and their responses are returned together.

use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use tokio::task::JoinHandle;

/// The protocol version with batches.
const WITH_BATCHES: &str = "2025-03-26";
/// The maximum size of a batch in bytes, that of a message in the library.
const MAX_BATCH: u64 = 16 << 20;
/// The number of bytes between the client and the service.
const BUFFER: usize = 64 << 10;

/// The streams for the service, and the task that writes to the client.
pub(super) struct StdioClient {
    pub(super) input: DuplexStream,
    pub(super) output: DuplexStream,
    pub(super) writing: JoinHandle<io::Result<()>>,
}

/// Connects a service with a client. The writer ends after the service has closed its output.
pub(super) fn client<R, W>(input: R, output: W) -> StdioClient
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (to_service, service_input) = duplex(BUFFER);
    let (service_output, from_service) = duplex(BUFFER);
    let shared = Arc::new(BatchedOutput { open: Mutex::default(), output: tokio::sync::Mutex::new(output) });
    let reader = shared.clone();
    tokio::spawn(async move {
        if let Err(error) = reader.read(BufReader::new(input), to_service).await {
            tracing::debug!("cannot read the messages of the client: {error}");
        }
    });
    let writing = tokio::spawn(async move { shared.write(BufReader::new(from_service)).await });
    StdioClient { input: service_input, output: service_output, writing }
}

struct BatchedOutput<W> {
    open: Mutex<OpenBatches>,
    output: tokio::sync::Mutex<W>,
}

#[derive(Default)]
struct OpenBatches {
    /// The negotiated protocol version.
    version: Option<String>,
    batches: Vec<Batch>,
}

/// A batch whose requests do not all have their responses.
struct Batch {
    open: Vec<Value>,
    responses: Vec<Value>,
}

impl<W: AsyncWrite + Unpin> BatchedOutput<W> {
    /// Passes messages to the service. Only a line with a batch is read as a whole.
    async fn read<R>(&self, mut input: BufReader<R>, mut service: DuplexStream) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
    {
        let mut begins = true;
        loop {
            let bytes = input.fill_buf().await?;
            let Some(first) = bytes.first() else { return Ok(()) };
            if begins && *first == b'[' {
                let mut line = Vec::new();
                (&mut input).take(MAX_BATCH).read_until(b'\n', &mut line).await?;
                begins = line.ends_with(b"\n");
                self.split(&line, &mut service).await?;
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            begins = end.is_some();
            let length = end.unwrap_or(bytes.len());
            service.write_all(&bytes[..length]).await?;
            input.consume(length);
        }
    }

    /// Passes the messages of a batch to the service, or rejects the batch.
    async fn split(&self, line: &[u8], service: &mut DuplexStream) -> io::Result<()> {
        let has_batches = self.open.lock().version.as_deref() == Some(WITH_BATCHES);
        let messages: Vec<Value> = match serde_json::from_slice(line) {
            Ok(Value::Array(messages)) if has_batches && !messages.is_empty() => messages,
            Ok(_) => {
                let why = format!(
                    "cannot serve a batch: protocol version {WITH_BATCHES} has them, and they are not empty; send its \
                     messages one by one"
                );
                return self.send(&error(-32_600, &why)).await;
            }
            Err(why) => return self.send(&error(-32_700, &format!("cannot read the message: {why}"))).await,
        };
        let is_request = |message: &&Value| message["method"].is_string() && !message["id"].is_null();
        let open: Vec<Value> =
            messages.iter().filter(is_request).map(|message| message["id"].clone()).collect();
        let invalid = messages.iter().filter(|message| !message.is_object());
        let responses: Vec<Value> = invalid.map(|_| error(-32_600, "a message is an object")).collect();
        match open.is_empty() {
            true if !responses.is_empty() => self.send(&responses.into()).await?,
            true => {}
            false => self.open.lock().batches.push(Batch { open, responses }),
        }
        for message in messages.iter().filter(|message| message.is_object()) {
            service.write_all(format!("{message}\n").as_bytes()).await?;
        }
        Ok(())
    }

    /// Passes messages of the service to the client.
    async fn write(&self, mut service: BufReader<DuplexStream>) -> io::Result<()> {
        let mut line = Vec::new();
        while service.read_until(b'\n', &mut line).await? > 0 {
            let destination = self.open.lock().destination(&line);
            match destination {
                Destination::Apart => self.write_line(&line).await?,
                Destination::Waits => {}
                Destination::Complete(responses) => self.send(&responses.into()).await?,
            }
            line.clear();
        }
        Ok(())
    }

    async fn send(&self, message: &Value) -> io::Result<()> {
        self.write_line(format!("{message}\n").as_bytes()).await
    }

    async fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let mut output = self.output.lock().await;
        output.write_all(line).await?;
        output.flush().await
    }
}

/// The place of a message of the service.
enum Destination {
    /// It belongs to no batch.
    Apart,
    /// It belongs to a batch with open requests.
    Waits,
    /// It completes a batch.
    Complete(Vec<Value>),
}

impl OpenBatches {
    fn destination(&mut self, line: &[u8]) -> Destination {
        // After the initialization, messages are read only while a batch is open.
        if self.version.is_some() && self.batches.is_empty() {
            return Destination::Apart;
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return Destination::Apart };
        if self.version.is_none() {
            self.version = message["result"]["protocolVersion"].as_str().map(str::to_owned);
            return Destination::Apart;
        }
        if message.get("method").is_some() {
            return Destination::Apart;
        }
        let id = &message["id"];
        let Some(at) = self.batches.iter().position(|batch| batch.open.contains(id)) else {
            return Destination::Apart;
        };
        let batch = &mut self.batches[at];
        batch.open.retain(|open| open != id);
        batch.responses.push(message);
        if batch.open.is_empty() {
            Destination::Complete(self.batches.remove(at).responses)
        } else {
            Destination::Waits
        }
    }
}

fn error(code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves each request with its method as result, and returns the lines that the client receives.
    async fn served(version: &str, lines: &str) -> Vec<Value> {
        let (mut own, input) = duplex(BUFFER);
        let (output, mut received) = duplex(BUFFER);
        let StdioClient { input, output: mut service, writing } = client(input, output);
        let version = version.to_owned();
        let serving = tokio::spawn(async move {
            let mut lines = BufReader::new(input).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"].is_null() {
                    continue;
                }
                let result = json!({ "protocolVersion": version, "method": message["method"] });
                let response = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                service.write_all(format!("{response}\n").as_bytes()).await.unwrap();
            }
        });
        // The version is known once the first response has arrived.
        let (first, rest) = lines.split_once('\n').unwrap();
        own.write_all(format!("{first}\n").as_bytes()).await.unwrap();
        let mut reader = BufReader::new(&mut received).lines();
        let mut all = vec![serde_json::from_str(&reader.next_line().await.unwrap().unwrap()).unwrap()];
        own.write_all(rest.as_bytes()).await.unwrap();
        drop(own);
        serving.await.unwrap();
        writing.await.unwrap().unwrap();
        while let Some(line) = reader.next_line().await.unwrap() {
            all.push(serde_json::from_str(&line).unwrap());
        }
        all
    }

    const LINES: &str = r#"{"id":0,"method":"initialize"}
[{"id":1,"method":"a"},{"method":"n"},{"id":"x","method":"b"},7]
{"id":2,"method":"c"}
"#;

    #[tokio::test]
    async fn the_responses_of_a_batch_are_returned_together() {
        let all = served("2025-03-26", LINES).await;
        let ids =
            |value: &Value| value.as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&all[1]), [Value::Null, 1.into(), "x".into()], "{all:?}");
        assert_eq!((all.len(), &all[2]["result"]["method"]), (3, &json!("c")));
    }

    #[tokio::test]
    async fn other_versions_and_broken_lines_are_rejected_with_an_id() {
        let all = served("2025-06-18", LINES).await;
        assert!(all.iter().any(|one| one["error"]["code"] == -32_600 && one["id"].is_null()), "{all:?}");
        assert!(all.iter().any(|one| one["id"] == 2), "{all:?}");
        let all =
            served("2025-03-26", "{\"id\":0,\"method\":\"initialize\"}\n[{\"id\":\n[]\n{\"id\":2}\n").await;
        let codes: Vec<_> = all.iter().filter_map(|one| one["error"]["code"].as_i64()).collect();
        assert_eq!(codes, [-32_700, -32_600], "{all:?}");
    }
}
