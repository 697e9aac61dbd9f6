//! A kernel with a typed tool and an async filter: `cargo run --example kernel`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use valvehouse::chat::message;
use valvehouse::filter::Hook;
use valvehouse::kernel::ChatOptions;
use valvehouse::provider::{CannedProvider, Reply};
use valvehouse::{BoxError, Filter, Json, Kernel, Tool, Verdict::Continue};

/// Tells how warm it is in a city.
#[derive(Deserialize, JsonSchema)]
struct Question {
    /// The name of the city.
    city: String,
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
    let filter = Filter::async_fn("lookup", Hook::PreChat, |ctx| async move {
        // Any asynchronous work can run here, such as a database query.
        tokio::time::sleep(Duration::from_millis(1)).await;
        ctx.context().set("user", "ann");
        Ok(Continue(ctx))
    });
    // The canned model calls the tool and then answers. Any `Provider` can be used here.
    let call = br#"{"role": "assistant", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}}]}"#;
    let model = CannedProvider::new([Reply::message(Json::parse(call)?), Reply::text("It is 3.5 degrees.")]);
    let kernel = Kernel::builder().tool(weather).filter(filter).provider(Arc::new(model.clone())).build();
    let answer =
        kernel.chat_with_tools(vec![message::user("How is it in Oslo?")], ChatOptions::default()).await?;
    assert_eq!(model.requests()[1].at_path("messages.2.content"), r#"{"city":"Oslo","degrees":3.5}"#.into());
    assert_eq!(answer.context.get_or("user", ""), "ann".into());
    eprintln!("{}", answer.text());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
