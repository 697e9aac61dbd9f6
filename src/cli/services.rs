//! `valvehouse explain --service NAME`: what a service demands of requests, and how they are adapted.

use valvehouse_core::text::did_you_mean;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, table};
use valvehouse_wire::service::{ServiceKind, rows};

/// Lists the rules of a kind of service.
pub(super) fn run(name: &str, out: &Console) -> Result<Exit, CommandError> {
    let names = ServiceKind::ALL.map(|(name, _)| name);
    let kind = ServiceKind::from_name(name).ok_or_else(|| {
        let hint = did_you_mean(name, names);
        CommandError::usage(format!("unknown service `{name}`{hint}; known services: {}", names.join(", ")))
    })?;
    let rows = rows(Some(kind));
    if out.is_json() {
        let row = |[demand, _, repair, source]: [String; 4]| {
            Json::from([("demand", demand.into()), ("repair", repair.into()), ("source", source.into())])
        };
        out.json(&rows.into_iter().map(row).collect::<Vec<_>>().into())?;
    } else {
        let lines = rows
            .into_iter()
            .map(|[demand, _, repair, _]| vec![demand.replace('`', ""), repair.replace('`', "")]);
        out.line(&table(&lines.collect::<Vec<_>>()))?;
    }
    Ok(Exit::Done)
}
