//! `valvehouse dev`: serves as `serve` does and shows whoever writes scripts what comes of each save and of
//! each request.

mod greeting;
mod keys;
mod play;
mod reloads;
mod replay;
mod requests;
mod session;
mod test_runs;
mod view;

use super::args::Dev as Asked;
use super::crashes;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::server::{Reading, Serving};
use keys::Keys;
use session::Session;
use valvehouse_config::Config;
use valvehouse_host::app::App;
use view::View;

pub(super) async fn run(
    asked: &Asked,
    config: Config,
    reading: &Reading,
    out: &Output,
) -> Result<Exit, Failure> {
    let serving = Serving::open(&config.server.listen).await?;
    // Deleted when this function ends: whatever loads or runs is attributed from here on.
    let _record = crashes::record(&config);
    let app = App::open(config).await?;
    app.traces.keep_everything();
    let stop = serving.stop();
    let view = View::new(out.clone(), stop.clone());
    let keys = if view.is_json() { None } else { Keys::of_terminal() };
    greeting::greet(&app, serving.address, asked, keys.is_some(), &view);
    let session = Session::begin(app.clone(), asked, view, stop);
    let watching = tokio::spawn(session.watch(app.host.reports(), app.traces.news(), keys));
    let ended = serving.run(&app, reading, out).await;
    watching.abort();
    // The terminal is given back by then.
    let _ = watching.await;
    ended
}
