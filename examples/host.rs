//! A host embedded in a program, with a script that changes while the host runs, and an observer: `cargo run
//! --example host`.

use std::sync::{Arc, Mutex};
use valvehouse::app::App;
use valvehouse::chat::message;
use valvehouse::config::Config;
use valvehouse::context::{Context, Events, Notice, Observer, Turn, TurnFacts};
use valvehouse::kernel::RunOptions;
use valvehouse::{BoxError, ChatRequest, Json};

/// An observer that records the text of models.
#[derive(Default)]
struct Listener(Mutex<String>);

impl Observer for Listener {
    fn notice(&self, notice: Notice) {
        if let Notice::LlmToken { text } = notice {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push_str(&text);
        }
    }
}

fn main() -> Result<(), BoxError> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), BoxError> {
    let project = tempfile::tempdir()?;
    let filters = project.path().join("filters");
    std::fs::create_dir(&filters)?;
    std::fs::write(filters.join("shout.rhai"), "fn stream(event) { event.text.make_upper(); event }")?;
    let app = App::open(Config::load(project.path(), &[])?).await?;
    // The model `demo` answers without a network; `valvehouse.toml` in the folder can define others.
    assert_eq!(say(&app, "good day").await?, say(&app, "good day").await?.to_uppercase());
    std::fs::write(filters.join("shout.rhai"), "fn stream(event) { event.text += \"!\"; event }")?;
    app.host.reload().await;
    assert!(say(&app, "good day").await?.ends_with('!'));
    app.close().await;
    Ok(())
}

/// Returns the text of a streamed answer as the observer receives it.
async fn say(app: &Arc<App>, text: &str) -> Result<String, BoxError> {
    let ready = app.host.snapshot().ready("demo", &[])?;
    let listener = Arc::new(Listener::default());
    let body = [("model", "demo".into()), ("messages", vec![message::user(text)].into())];
    let turn = Turn::new(TurnFacts::default(), Context::default(), Events::default());
    let options = RunOptions::new(turn.observed_by(listener.clone())).streamed(true);
    app.run(&ready, ChatRequest::new(Json::from(body))?, options, |_| {}).answer().await?;
    Ok(listener.0.lock().map_err(|poisoned| poisoned.to_string())?.clone())
}

#[test]
fn it_runs() {
    main().unwrap();
}
