//! The command: shows the events of a host while it serves.

use super::keys::{Keys, LEGEND};
use super::options::DevOptions;
use super::session::Session;
use super::view::View;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Notify;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, contents, first_request, plugin_problems, report};

/// Shows the events of a host while it serves. `serving` runs until the host ends; notifying `stop` requests
/// that end.
///
/// # Errors
///
/// Returns the error with which serving ended.
pub async fn run(
    options: &DevOptions,
    app: &Arc<App>,
    address: SocketAddr,
    stop: Arc<Notify>,
    serving: impl Future<Output = Result<Exit, CommandError>>,
    out: &Console,
) -> Result<Exit, CommandError> {
    app.traces.keep_everything();
    let view = View::new(out.clone(), stop.clone());
    let keys = if view.is_json() { None } else { Keys::of_terminal() };
    greet(app, address, options, keys.is_some(), &view);
    let session = Session::begin(app.clone(), options, view, stop);
    let watching = tokio::spawn(session.watch(app.host.reports(), app.traces.news(), keys));
    let ended = serving.await;
    watching.abort();
    // This restores the terminal before the command ends.
    let _ = watching.await;
    ended
}

/// Shows the address, the contents of the project, and the first steps.
fn greet(app: &App, address: SocketAddr, options: &DevOptions, has_keys: bool, view: &View) {
    let snapshot = app.host.snapshot();
    let url = format!("http://{address}");
    let models = snapshot.model_names();
    let problems = plugin_problems(&snapshot);
    if view.is_json() {
        let event = Json::from([
            ("event", "listening".into()),
            ("address", url.as_str().into()),
            ("generation", snapshot.generation.into()),
            ("models", models.iter().map(|name| Json::from(name.as_str())).collect::<Vec<_>>().into()),
            ("problems", report::all_as_json(&problems)),
        ]);
        return view.event(|_| String::new(), || event);
    }
    let paint = view.paint();
    let version = concat!("valvehouse ", env!("CARGO_PKG_VERSION"), " dev");
    let mut text = format!("{} on {}\n", paint.bold(version), paint.bold(&url));
    text.push_str(&contents(app, &snapshot));
    text.push_str(
        "  records  contents of all requests, in memory, to show them here: for development only\n",
    );
    text.push_str(LEGEND);
    for problem in &problems {
        text.push_str(&format!("\n{}\n", report::shown(problem, paint)));
    }
    let model = options.model.as_ref().or(models.first());
    text.push_str(&format!("\n{}\n", first_request(app, &url, model)));
    text.push_str(&format!("write:   valvehouse new filter polite{}\n", project(&app.config.project)));
    if has_keys {
        text.push_str(&format!("\n{}\n", paint.dim("? shows the keys")));
    }
    view.note(&text);
}

/// Returns the option for the project folder; "" if it is the current folder.
fn project(folder: &Path) -> String {
    let near = report::near(folder);
    if near == Path::new("") { String::new() } else { format!(" --project {}", near.display()) }
}
