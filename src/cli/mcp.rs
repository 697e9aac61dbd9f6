//! `valvehouse mcp`: a host of the project for one MCP client, which communicates over stdin and stdout.

use super::server::{Signal, Signals};
use super::settings::{Reading, SettingsFile, Trigger};
use super::{args, mcp_servers, server};
use valvehouse_config::Config;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_mcp::{Caller, Endpoint, Mounts};
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    args: &args::Mcp,
    config: Config,
    reading: &Reading,
    out: &Console,
) -> Result<Exit, CommandError> {
    match &args.command {
        Some(args::McpCommand::List { name }) => {
            return mcp_servers::list(name.as_deref(), &config, out).await;
        }
        Some(args::McpCommand::Approve { name, tools, forget }) => {
            return mcp_servers::approve(name, tools, *forget, &config, out).await;
        }
        Some(args::McpCommand::Login { name, no_browser }) => {
            return mcp_servers::login(name, *no_browser, &config, out).await;
        }
        Some(args::McpCommand::Logout { name }) => return mcp_servers::logout(name, &config, out).await,
        None => {}
    }
    // From here on, a signal stops this host gracefully.
    let mut signals = Signals::new()?;
    let _record = server::crash_record(&config);
    let app = App::open(config).await?;
    app.follow();
    let mounts = Mounts::start(&app);
    mcp_servers::offered(&app, &mounts).await;
    let endpoint = Endpoint::new(app.clone());
    let mut settings = SettingsFile::follow(&reading.project, reading.text.clone());
    let served = {
        let serving = endpoint.serve_stdio(caller(&app, args.user.as_deref()));
        let mut serving = std::pin::pin!(serving);
        loop {
            tokio::select! {
                served = &mut serving => break served,
                signal = signals.next() => match signal {
                    Signal::LookAgain => settings.apply(Trigger::Operator, &app, reading, out).await,
                    Signal::HandOver => {}
                    Signal::Stop => break Ok(()),
                },
                () = settings.changed() => settings.apply(Trigger::Save, &app, reading, out).await,
            }
        }
    };
    drop(mounts);
    app.close().await;
    served.map(|()| Exit::Done).map_err(|error| CommandError::new(Exit::Unavailable, error.to_string()))
}

/// Returns the caller, who is the user that started this process.
fn caller(app: &App, user: Option<&str>) -> Caller {
    Caller {
        owner: "stdio".into(),
        facts: app.host.snapshot().facts_of_command("mcp", user),
        variables: Json::object(),
        tools: app.config.server.mcp_tools.clone(),
        tool_search: app.config.server.mcp_tool_search,
    }
}
