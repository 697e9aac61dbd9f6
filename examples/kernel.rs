//! A kernel with a typed tool and an async filter: `cargo run --example kernel`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use valvehouse::filter::{HookResult, PreChat};
use valvehouse::provider::{CannedProvider, Reply};
use valvehouse::{BoxError, Filter, Json, Kernel, Tool, Verdict};

/// Tells how warm it is in a city.
#[derive(Deserialize, JsonSchema)]
struct Question {
    /// The name of the city.
    city: String,
}

/// A filter that looks up the user before each model call.
struct Lookup;

impl Filter for Lookup {
    async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
        // Any asynchronous work can run here, such as a database query.
        tokio::time::sleep(Duration::from_millis(1)).await;
        chat.context().set("user", "ann");
        Ok(Verdict::Continue)
    }
}

#[derive(Serialize)]
struct Weather {
    city: String,
    degrees: f64,
}

fn main() -> Result<(), BoxError> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), BoxError> {
    let weather = Tool::from_fn("weather", |question: Question| async move {
        let degrees = "3.5".parse()?;
        Ok(Weather { city: question.city, degrees })
    });
    // The canned model calls the tool and then answers. Any `Provider` can be used here.
    let call = br#"{"role": "assistant", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]}"#;
    let model = CannedProvider::new([Reply::message(Json::parse(call)?), Reply::text("It is 3.5 degrees.")]);
    let kernel = Kernel::builder().tool(weather).filter(Lookup).provider(model.clone()).build();
    let answer = kernel.chat("How is it in Oslo?").await?;
    assert_eq!(model.requests()[1].at_path("messages.2.content"), r#"{"city":"Oslo","degrees":3.5}"#.into());
    assert_eq!(answer.context.get_or("user", ""), "ann".into());
    eprintln!("{}", answer.text());
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
