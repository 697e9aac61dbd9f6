//! `valvehouse migrate`: creates and migrates the tables of the store's database.

use super::args;
use valvehouse_config::{Config, SchemaMigration, StoreSettings};
use valvehouse_core::text::count;
use valvehouse_json::Json;
use valvehouse_store::{self as store, StoreError, StoreErrorKind};
use valvehouse_terminal::{CommandError, Console, Exit};

/// The interval at which a host that waits for the tables checks them.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

pub(super) async fn run(args: &args::Migrate, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let (steps, word) = match args.check {
        true => (store::missing_steps(&config.store).await?, "missing"),
        false => (store::migrate(&config.store).await?, "taken"),
    };
    if out.is_json() {
        let steps: Vec<Json> = steps.iter().map(|step| Json::from(*step)).collect();
        out.json(&Json::from([(word, steps.into())]))?;
    } else if steps.is_empty() {
        out.line("the tables are up to date")?;
    } else {
        out.line(&format!("{} {word}: {}", count(steps.len(), "step"), steps.join(", ")))?;
    }
    Ok(if args.check && !steps.is_empty() { Exit::Findings } else { Exit::Done })
}

/// Waits until the tables are up to date if this host may not migrate them.
pub(super) async fn wait(settings: &StoreSettings, out: &Console) {
    if settings.migrate != SchemaMigration::Wait {
        return;
    }
    let own = StoreSettings { migrate_url: None, ..settings.clone() };
    let mut last_report = None;
    loop {
        let waits_for = match store::missing_steps(&own).await {
            Ok(steps) if steps.is_empty() => return,
            Ok(steps) => {
                format!("waiting for the store's tables ({} missing): valvehouse migrate", steps.join(", "))
            }
            // Opening the store reports the other errors.
            Err(StoreError { kind, .. }) if kind != StoreErrorKind::Unreachable || last_report.is_none() => {
                return;
            }
            Err(error) => format!("waiting for the store's tables: {error}"),
        };
        if last_report.as_ref() != Some(&waits_for) {
            out.note(&waits_for);
            last_report = Some(waits_for);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
