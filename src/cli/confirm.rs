//! `valvehouse confirm`, `audit` and `adopt`: changes that an operator accepts or makes.

use super::args;
use super::project::{self, Project};
use valvehouse_config::Config;
use valvehouse_host::admin::audit_switch;
use valvehouse_host::{State, adoptable};
use valvehouse_json::Json;
use valvehouse_store::GuardChange;
use valvehouse_terminal::{CommandError, Console, Exit, report};

/// Confirms the pending change of a guard: its removal, or the new version of its file.
pub(super) async fn run(args: &args::Confirm, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look_to_change(config).await?;
    let plugin = project.plugin(&args.id)?;
    if plugin.state == State::Missing {
        return removed(project, &args.id, out).await;
    }
    let Some(pending) = plugin.pending.clone() else {
        return Err(CommandError::data(format!(
            "cannot confirm a change of `{}`: none is pending; to remove the guard, delete {} first",
            args.id,
            report::near(&plugin.path).display()
        )));
    };
    for problem in plugin.state.problems() {
        out.note(&problem.message);
    }
    let generation = project.store.confirm(&args.id, &pending, &project::author()).await?;
    let what = if pending == GuardChange::Off { "may be off" } else { "may change" };
    ended(project, &args.id, what, generation, out).await
}

/// Puts a filter in audit mode, or ends it.
pub(super) async fn audit(args: &args::Audit, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look_to_change(config).await?;
    let is_on = args.mode == args::OnOff::On;
    let plugin = project.plugin(&args.id)?;
    let switch = audit_switch(plugin, is_on).map_err(|error| CommandError::data(error.to_string()))?;
    if is_on && plugin.security {
        out.note(&format!("{} is a guard, which protects nothing in audit mode", args.id));
    }
    let generation = project.store.set_switch(&switch, &project::author()).await?;
    let what = if is_on { "is in audit mode" } else { "applies its verdicts and changes" };
    ended(project, &args.id, what, generation, out).await
}

async fn removed(project: Project, id: &str, out: &Console) -> Result<Exit, CommandError> {
    let generation = project.store.confirm_removal(id, &project::author()).await?;
    ended(project, id, "is no longer required: its removal is accepted", generation, out).await
}

/// Assigns a plugin the stored data of a removed one with its id, or deletes it.
pub(super) async fn adopt(args: &args::Adopt, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look_to_change(config).await?;
    let (id, by) = (args.id.as_str(), project::author());
    let text = project.plugin(id)?.script.as_ref().map(|script| script.file.text.to_string());
    let store = &project.store;
    let Some(number) = adoptable(store, id, &text.unwrap_or_default()).await? else {
        return Err(CommandError::data(format!("cannot adopt stored data for `{id}`: none is set aside")));
    };
    let (generation, what) = match args.drop {
        false => (store.adopt(id, number, &by).await?, "uses the data that was set aside"),
        true => {
            (store.drop_aside(id, number, &by).await?, "starts empty: the data that was set aside is deleted")
        }
    };
    ended(project, id, what, generation, out).await
}

async fn ended(
    project: Project,
    id: &str,
    what: &str,
    generation: u64,
    out: &Console,
) -> Result<Exit, CommandError> {
    let reach = project.reach(generation).await?;
    if out.is_json() {
        out.json(&Json::from([("id", id.into()), ("reach", reach.as_json())]))?;
    } else {
        out.line(&format!("{id} {what} — {}", reach.in_words()))?;
    }
    project.store.close().await;
    Ok(reach.exit())
}
