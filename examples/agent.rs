//! An agent that requests approval before a payment and returns a typed answer: `cargo run --example agent`.

use schemars::JsonSchema;
use serde::Deserialize;
use valvehouse::agent::Decision;
use valvehouse::agent::middleware::HumanApproval;
use valvehouse::provider::{CannedProvider, Reply};
use valvehouse::{Agent, BoxError, Error, Tool, json};

/// Pays a bill.
#[derive(Deserialize, JsonSchema)]
struct Payment {
    /// The payee.
    to: String,
    /// The amount in cents.
    amount: u32,
}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
struct Receipt {
    to: String,
    amount: u32,
}

fn main() -> Result<(), BoxError> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), BoxError> {
    let pay =
        Tool::from_fn("pay", |bill: Payment| async move { Ok(format!("{} to {}", bill.amount, bill.to)) });
    // The canned model calls the tool and then answers. Any `Provider` can be used here.
    let call = Reply::tool_call("pay", json!({ "to": "Ann", "amount": 250 }));
    let receipt = r#"{"to": "Ann", "amount": 200}"#;
    let model = CannedProvider::new([call, Reply::text(receipt)]);
    let mut agent = Agent::builder()
        .id("cashier")
        .provider(model.clone())
        .tool(pay)
        .middleware(HumanApproval::all())
        .build()?;
    // The run pauses for a person, who approves a smaller amount.
    let waiting = agent.ask::<Receipt>("Pay Ann 2.50").await;
    assert!(matches!(waiting, Err(Error::Paused)));
    let arguments = json!({ "to": "Ann", "amount": 200 });
    let receipt: Receipt = agent.resume(Decision::approve_with(arguments)).await?.parse()?;
    assert_eq!(receipt, Receipt { to: "Ann".into(), amount: 200 });
    eprintln!("{receipt:?}");
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
