//! The options of a dry run: one hook of a script, or a turn, and its input.

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use valvehouse_core::filter::Hook;
use valvehouse_script::ScheduledCall;
use valvehouse_terminal::key_value;

/// The options of `valvehouse run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse run inlet turn_limit --body request.json
  valvehouse run inlet turn_limit --text \"hello\" --valves max_turns=0
  valvehouse run inlet redact --body '{\"messages\": [{\"role\": \"user\", \"content\": \"my sk-…\"}]}'
  valvehouse run outlet redact --text \"an answer\"
  valvehouse run stream redact --body answer.sse      a recorded answer, its `data: …` lines
  valvehouse run stream redact --body '[\"a pie\", \"ce\"]' --print text
  valvehouse run pre_invocation guard --body '{\"tool\": \"weather\", \"args\": {\"city\": \"Oslo\"}}'
  valvehouse run action word_count --text \"an answer\"
  valvehouse run turn --body request.json --model assistant
  valvehouse run pipe council --text hello    a model that a script offers
  valvehouse run tick cleanup --live          a scheduled call
  cat request.json | valvehouse run inlet redact --body - --print value | jq .messages

Name a script by file or id; it runs with the project's valves and budgets. It is a dry run: scripts
access no other host, file, program or model, and kv writes are discarded; --live allows all of that. A
turn always calls its model, and questions are not answered. To run a tool, use valvehouse invoke TOOL.

Exit codes: 1 the script rejected the body, 65 the script does not load or failed.")]
pub struct DryRunOptions {
    /// Run this hook, `action` for the press of a button, `turn` for a whole turn through all filters, `pipe` for a model of a script, or `tick`, `pipes` or `tools`, which need no body
    #[arg(value_name = "HOOK", value_parser = PossibleValuesParser::new(hooks()))]
    pub hook: String,
    /// Run this script: a file, or the id of a plugin
    #[arg(value_name = "FILE")]
    pub script: Option<String>,
    /// Pass this value to the hook: a file, - for stdin, or the JSON itself
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub body: Option<String>,
    /// Pass this text: the user's message, or the model's answer
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// Set a valve for this run only
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub valves: Vec<(String, String)>,
    /// Press this button of an action that has several
    #[arg(long, value_name = "BUTTON")]
    pub button: Option<String>,
    /// Set the model of the turn
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// Set the id of the user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub user: Option<String>,
    /// Set the id of the chat
    #[arg(long, value_name = "CHAT", value_parser = NonEmptyStringValueParser::new())]
    pub chat: Option<String>,
    /// Set `__metadata__` with a JSON object
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Use the script's grants, and store its writes
    #[arg(long)]
    pub live: bool,
    /// Print this on stdout
    #[arg(long, value_name = "WHAT", default_value = "difference")]
    pub print: Print,
}

/// The part of a run that is its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Print {
    /// The outcome and the changes
    Difference,
    /// The value after the hook, as JSON
    Value,
    /// The text of the last message or of the answer
    Text,
}

fn hooks() -> Vec<PossibleValue> {
    let hooks = Hook::ALL.into_iter().map(|hook| PossibleValue::new(hook.name()));
    // The hidden value is accepted, so that its error names the right command.
    let scheduled = ScheduledCall::ALL.into_iter().map(|what| PossibleValue::new(what.as_str()));
    let others = [
        PossibleValue::new("action"),
        PossibleValue::new("turn"),
        PossibleValue::new("pipe"),
        PossibleValue::new("tool").hide(true),
    ];
    hooks.chain(scheduled).chain(others).collect()
}
