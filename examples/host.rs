//! A host embedded in a program, with a script that changes while the host runs, and an observer: `cargo run
//! --example host`.

use std::sync::{Arc, Mutex};
use valvehouse::context::{Notice, Observer};
use valvehouse::provider::CannedProvider;
use valvehouse::{BoxError, Host};

/// An observer that records the text of models.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Observer for Recorder {
    fn notice(&self, notice: Notice) {
        if let (Notice::LlmToken { text }, Ok(mut texts)) = (notice, self.0.lock()) {
            texts.push(text);
        }
    }
}

fn main() -> Result<(), BoxError> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), BoxError> {
    let filters = tempfile::tempdir()?;
    let script = filters.path().join("shout.rhai");
    std::fs::write(&script, "fn stream(event) { event.text.make_upper(); event }")?;
    let recorder = Recorder::default();
    let host = Host::builder()
        .scripts(filters.path())
        // Any `Provider` can be used here.
        .model("helper", CannedProvider::new(["good day", "good day"]), "any")
        .observer(recorder.clone())
        .open()
        .await?;
    let mut stream = host.stream("helper", "hello")?;
    let mut text = String::new();
    while let Some(chunk) = stream.next().await {
        text += &chunk?.text();
    }
    assert_eq!(text, "GOOD DAY");
    std::fs::write(&script, "fn stream(event) { event.text += \"!\"; event }")?;
    host.reload().await;
    assert!(host.chat("helper", "hello").await?.text().ends_with('!'));
    eprintln!("{:?}", recorder.0.lock().map_err(|poisoned| poisoned.to_string())?);
    host.close().await;
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
