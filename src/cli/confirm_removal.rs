//! `valvehouse confirm-removal`: lets a missing security filter go.

use super::args;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::project::{self, Project};
use super::report;
use crate::config::Config;
use crate::host::State;
use crate::json::Json;

pub(super) async fn run(
    asked: &args::ConfirmRemoval,
    config: &Config,
    out: &Output,
) -> Result<Exit, Failure> {
    let project = Project::look(config).await?;
    let plugin = project.plugin(&asked.id)?;
    if plugin.state != State::Missing {
        let file = report::near(&plugin.path);
        return Err(Failure::data(format!(
            "`{}` is not missing: {} is there; delete that file first",
            asked.id,
            file.display()
        )));
    }
    let generation = project.store.confirm_removal(&asked.id, &project::author()).await?;
    let reach = project.reach(generation).await?;
    if out.is_json() {
        out.json(&Json::from([("id", asked.id.as_str().into()), ("reach", reach.as_json())]))?;
    } else {
        out.line(&format!("{} may be gone — {}", asked.id, reach.in_words()))?;
    }
    project.store.close().await;
    Ok(reach.exit())
}
