//! `valvehouse apply`: checks, tests and uploads a folder of scripts as one generation.

use super::script_folder::{ScriptFolder, changes};
use super::{args, check, project};
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_config::{Config, ScriptSource};
use valvehouse_core::text::count;
use valvehouse_host::NodeStatus;
use valvehouse_json::Json;
use valvehouse_store::{self as store, NewScriptSet, ScriptFile, SetManifest, Store, StoreError};
use valvehouse_terminal::{CommandError, Console, Exit, clean, files};

/// The maximum length of a file with a signature, in bytes.
const MAX_SIGNATURE: usize = 64 << 10;

/// The time limit of `--wait`.
const TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(args: &args::Apply, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let folder = ScriptFolder::existing(args.folder.as_deref(), config)?;
    let settings = folder.settings(config);
    if args.load {
        return check::load(&settings).await;
    }
    let files = folder.files()?;
    let needs = args.needs.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
    let manifest = SetManifest::of(&files, needs);
    SetManifest::parse(&manifest.text).map_err(|error| CommandError::data(error.to_string()))?;
    if args.manifest {
        out.line(&manifest.text)?;
        return Ok(Exit::Done);
    }
    let signature = match &args.signature {
        Some(file) => Some(files::read_text(file, MAX_SIGNATURE)?),
        None => None,
    };
    if let Some(key) = &config.folders.public_key {
        valvehouse_host::check_signature(&manifest.text, signature.as_deref(), key).map_err(|why| {
            CommandError::usage(format!(
                "cannot upload the scripts: hosts accept only signed scripts (folders.public_key), and {why}; sign the output of --manifest, and pass the signature with --signature"
            ))
        })?;
    }
    let checked = check::before_apply(&settings, out).await?;
    if checked != Exit::Done {
        return Ok(checked);
    }
    #[cfg(feature = "workbench")]
    if !args.no_test {
        let options = valvehouse_workbench::test::TestOptions::default();
        let tested = valvehouse_workbench::test::run(options, &settings, out).await?;
        if tested != Exit::Done {
            return Ok(tested);
        }
    }
    if folder.files()? != files {
        return Err(CommandError::data(
            "cannot upload the scripts: they changed while they were checked; nothing was uploaded, run apply again",
        ));
    }
    upload(
        args,
        config,
        &NewScriptSet {
            manifest: &manifest,
            files: &files,
            signature: signature.as_deref(),
            by: &project::author(),
        },
        out,
    )
    .await
}

async fn upload(
    args: &args::Apply,
    config: &Config,
    set: &NewScriptSet<'_>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let store = store::open(&config.store).await?;
    let latest = store.script_sets().await?.into_iter().next();
    let before: Vec<ScriptFile> = match &latest {
        Some(latest) => store.script_files(latest.generation).await?,
        None => Vec::new(),
    };
    let is_new = latest.as_ref().is_none_or(|latest| {
        latest.manifest != set.manifest.text || latest.signature.as_deref() != set.signature
    });
    let generation = match &latest {
        Some(latest) if !is_new => latest.generation,
        _ => store.put_script_set(set).await?,
    };
    let changed = changes(&before, set.files).len();
    if !out.is_json() {
        let files = count(set.files.len(), "file");
        let changed = count(changed, "change");
        out.line(&match is_new {
            true => format!("uploaded {files}, {changed}: generation {generation}"),
            false => format!("nothing changed: generation {generation} has these {files}"),
        })?;
    }
    if config.folders.source == ScriptSource::Folder {
        out.note("hosts with these settings load scripts from their folders; set [folders] source = \"store\" to load them from the store");
    }
    let output = Json::from([
        ("generation", generation.into()),
        ("files", set.files.len().into()),
        ("changed", changed.into()),
    ]);
    let exit = report_reach(&store, generation, args.wait, output, out).await?;
    store.close().await;
    Ok(exit)
}

/// Reports how many hosts have applied a generation; with `is_awaited`, waits for them first.
pub(super) async fn report_reach(
    store: &Store,
    generation: u64,
    is_awaited: bool,
    output: Json,
    out: &Console,
) -> Result<Exit, CommandError> {
    let exit = if is_awaited {
        let WaitOutcome { hosts, late } = wait(store, generation).await?;
        output.put("hosts", hosts);
        let missing = late.iter().map(|(node, status)| {
            Json::from([("node", node.as_str().into()), ("error", status.error.as_deref().into())])
        });
        output.put("late", missing.collect::<Vec<_>>());
        if !out.is_json() {
            for (node, status) in &late {
                let why = status.error.as_deref().unwrap_or("has not answered yet");
                out.line(&format!("{} does not run it: {}", clean(node), clean(why)))?;
            }
            out.line(&match (hosts, late.is_empty()) {
                (0, _) => "no host is running on this store".to_owned(),
                (hosts, true) => format!("live on {}", count(hosts, "host")),
                (hosts, false) => format!("live on {} of {}", hosts - late.len(), count(hosts, "host")),
            })?;
        }
        if late.is_empty() { Exit::Done } else { Exit::Unavailable }
    } else {
        Exit::Done
    };
    if out.is_json() {
        out.json(&output)?;
    }
    Ok(exit)
}

/// The number of hosts, and the hosts that have not applied the generation, with their status.
struct WaitOutcome {
    hosts: usize,
    late: Vec<(String, NodeStatus)>,
}

/// Waits until every running host has applied or rejected a generation.
async fn wait(store: &Store, generation: u64) -> Result<WaitOutcome, StoreError> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let hosts = store.hosts().await?;
        let late: Vec<(String, NodeStatus)> = hosts
            .iter()
            .map(|host| (host, NodeStatus::of(host)))
            .filter(|(host, status)| host.applied_generation < generation || status.refuses(generation))
            .map(|(host, status)| (host.host_id.clone(), status))
            .collect();
        let is_decided = late.iter().all(|(_, status)| status.refuses(generation));
        if is_decided || Instant::now() > end {
            return Ok(WaitOutcome { hosts: hosts.len(), late });
        }
        tokio::time::sleep(PAUSE).await;
    }
}
