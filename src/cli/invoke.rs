//! `valvehouse invoke`: calls a tool with the filters of the project, without a model.

use super::args;
use valvehouse_config::Config;
use valvehouse_core::context::{Context, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::InvokeOutput;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_script::Code;
use valvehouse_terminal::{
    CommandError, Console, Exit, StdinLines, files, plugin_problems, questions, report,
};

pub(super) async fn run(args: args::Invoke, config: Config, out: &Console) -> Result<Exit, CommandError> {
    let arguments = arguments(&args)?;
    let context =
        args.context.as_deref().map_or_else(|| Ok(Json::object()), |text| object("--context", text))?;
    let app = App::open(config).await?;
    #[cfg(feature = "mcp")]
    let _mounts = super::mcp_servers::mounted(&app).await;
    app.fetch_lists().await;
    let done = invoke(&app, &args, arguments, Context::new(context), out).await;
    app.close().await;
    done.map(|()| Exit::Done)
}

async fn invoke(
    app: &App,
    args: &args::Invoke,
    arguments: Json,
    context: Context,
    out: &Console,
) -> Result<(), CommandError> {
    let snapshot = app.host.snapshot();
    let ready = args.model.as_deref().map(|model| snapshot.ready(model, &[])).transpose()?;
    let kernel = ready.as_ref().map_or_else(|| snapshot.invoking(), |ready| ready.kernel.clone());
    if kernel.find_tool(&args.tool).is_none() {
        // The problem of the tool's file, or of a file with several tools, explains more than an unknown tool.
        let about = |problem: &valvehouse_script::Diagnostic| {
            problem.id == args.tool || problem.code == Code::BadTool
        };
        for problem in plugin_problems(&snapshot).iter().filter(|problem| about(problem)) {
            out.note(&report::shown(problem, out.talk()));
        }
    }
    // The variables of the configuration take precedence, as in a chat.
    for (name, value) in ready.iter().flat_map(|ready| ready.facts.field("variables").entries()) {
        context.set(&name, value.deep_clone());
    }
    let (events, questions) = questions::listening(Some(&app.questions), out);
    let model = Json::from(ready.map(|ready| ready.facts));
    let turn = Turn::new(TurnFacts { model, ..facts(args, &snapshot) }, context, events);
    // If the arguments come from stdin, it cannot be used for answers.
    let mut lines =
        if args.args.as_deref() == Some("-") { StdinLines::none() } else { StdinLines::of_stdin() };
    let run = kernel.invoke_in(&args.tool, arguments, &turn);
    let done = questions::answer_during(run, questions, &app.questions, &mut lines, out).await?;
    let InvokeOutput { value, context, .. } = done.map_err(|error| failed(&args.tool, error))?;
    if out.is_json() {
        out.json(&Json::from([("result", value), ("context", context.variables().clone())]))?;
    } else if let Some(text) = value.as_str() {
        out.text(text)?;
        out.line("")?;
    } else {
        out.line(&value.pretty(2))?;
    }
    Ok(())
}

/// An error of the tool itself is not a rejection of the request.
fn failed(tool: &str, error: Error) -> CommandError {
    match error {
        Error::Rejected(rejection) if rejection.plugin == tool => {
            CommandError::new(Exit::Findings, format!("{tool}: {}", rejection.message))
        }
        error => error.into(),
    }
}

fn facts(args: &args::Invoke, snapshot: &valvehouse_host::Snapshot) -> TurnFacts {
    TurnFacts {
        chat_id: args.chat.clone().unwrap_or_default(),
        message_id: uuid::Uuid::new_v4().to_string(),
        ..snapshot.facts_of_command("invoke", args.user.as_deref())
    }
}

/// Returns the arguments of `--args`, overridden by those that follow the tool.
fn arguments(args: &args::Invoke) -> Result<Json, CommandError> {
    let arguments = match args.args.as_deref() {
        Some("-") => object("stdin", &files::read_stdin(files::MAX_INPUT)?)?,
        Some(text) => object("--args", text)?,
        None => Json::object(),
    };
    for (key, value) in &args.values {
        // The object is new and not read-only.
        arguments.edit(key, value.as_str());
    }
    Ok(arguments)
}

fn object(from: &str, text: &str) -> Result<Json, CommandError> {
    match Json::parse(text.as_bytes()) {
        Ok(object @ Json::Object(_)) => Ok(object),
        Ok(other) => {
            let kind = other.kind();
            Err(CommandError::usage(format!(
                "{from} must be a JSON object, such as {{\"city\": \"Tokyo\"}}, not {kind}"
            )))
        }
        Err(error) => Err(CommandError::usage(format!("{from} is not valid JSON: {error}"))),
    }
}
