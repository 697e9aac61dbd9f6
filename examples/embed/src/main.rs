//! Runs one filter, written in Rhai, on one request: `cargo run -p valvehouse-embed-example`.

use std::error::Error;
use valvehouse_core::Kernel;
use valvehouse_core::provider::CannedProvider;

const SHOUT: &str = "fn inlet(body) { body.messages[-1].content.make_upper(); body }";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The canned provider answers without a network and records its requests. Any `Provider` can be used here.
    let provider = CannedProvider::new(["hello"]);
    let filter = valvehouse_script::filter("shout", SHOUT)?;
    let kernel = Kernel::builder().filter(filter).provider(provider.clone()).build();
    let answer = kernel.chat("good day").await?;
    let prompt = provider.requests()[0].at_path("messages.0.content");
    eprintln!("the model received {prompt} and answered {:?}", answer.text());
    Ok(())
}
