//! `shell::run`: runs programs that are granted to the plugin.

use super::argument::{AnyMap, RhaiResultOf, effect, fail, float, items, running, unfit};
use super::host_calls;
use super::waiting::{known_options, unknown_option};
use rhai::{Dynamic, Module};
use std::time::Duration;
use valvehouse_dialect::budget;
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_json::Json;
use valvehouse_os::{Command, Options};

const FUNCTION: &str = "shell::run";
/// The maximum timeout that a script may set for a program, in milliseconds.
const MAX_MS: f64 = 600_000.0;

/// A text or an array. The name of this type appears in the API reference.
type Argv = Dynamic;

/// The module with `shell::run(argv, options?)`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "run",
        &["argv", "program_output"],
        "Runs a granted program: `[\"git\", \"log\"]`, or a text for `sh -c` where `sh` is granted. Returns \
         `exit_code`, `stdout` and `stderr`; `signal` if a signal ended the program, `timed_out` and `cut` \
         if they are true. An exit code other than 0 is returned as well. All processes that the program \
         starts are ended with it.",
    )
    .set_into_module(&mut module, |argv: Argv| run(&argv, Options::default()));
    effect(
        "run",
        &["argv", "options: map", "program_output"],
        "Runs a granted program. Options: `stdin` (a text), `folder` (a granted folder or a subfolder), \
         `timeout` in ms (default 30 000, at most 600 000).",
    )
    .set_into_module(&mut module, |argv: Argv, options: AnyMap| run(&argv, read(&options)?));
    module
}

/// The maximum size of all arguments of a program, in bytes.
const MAX_ARGV: usize = 1 << 20;

fn run(argv: &Dynamic, options: Options) -> RhaiResultOf<Dynamic> {
    let what = command(argv)?;
    let call = running(FUNCTION)?;
    let arguments = json_of(argv)?;
    let output = host_calls::once(
        FUNCTION,
        || arguments,
        || {
            let output = budget::wait(&call.turn, call.resources.programs.run(what, options))?;
            let output =
                output.map_err(|failure| fail(FUNCTION, failure.message_for(&call.caller.plugin)))?;
            Ok(output.into_json())
        },
    )?;
    Ok(live(&output, Shape::Plain))
}

fn command(argv: &Dynamic) -> RhaiResultOf<Command> {
    if let Ok(text) = argv.as_immutable_string_ref() {
        return Ok(Command::Shell(text.to_string()));
    }
    let part = |part: &Dynamic| match json_of(part) {
        Ok(Json::Text(text)) => Ok(text.to_string()),
        Ok(number @ Json::Number(_)) => Ok(number.to_string()),
        _ => Err(unfit(FUNCTION, "argv", "an array of texts", part)),
    };
    let parts = items(FUNCTION, "argv", argv)?;
    let bytes: usize = parts.iter().filter_map(|part| Some(part.as_immutable_string_ref().ok()?.len())).sum();
    if bytes > MAX_ARGV {
        let most = MAX_ARGV >> 20;
        return Err(fail(
            FUNCTION,
            format!(
                "`argv` has {bytes} bytes and exceeded its limit of {most} MiB; pass large data in `stdin`"
            ),
        ));
    }
    Ok(Command::Argv(parts.iter().map(part).collect::<RhaiResultOf<_>>()?))
}

fn read(options: &Dynamic) -> RhaiResultOf<Options> {
    let Ok(Json::Object(map)) = json_of(options) else {
        return Err(unfit(FUNCTION, "options", "a map", options));
    };
    let mut read = Options::default();
    for (name, value) in map.entries() {
        let value = live(&value, Shape::Plain);
        match name.as_str() {
            "stdin" => read.stdin = Some(text("stdin", &value)?),
            "folder" => read.folder = Some(text("folder", &value)?),
            "timeout" => read.timeout = Some(timeout(&value)?),
            other => return Err(unknown_option(FUNCTION, other, &known_options(FUNCTION))),
        }
    }
    Ok(read)
}

fn text(name: &str, value: &Dynamic) -> RhaiResultOf<String> {
    let text = value.as_immutable_string_ref().map(|text| text.to_string());
    text.map_err(|_| unfit(FUNCTION, name, "a text", value))
}

fn timeout(value: &Dynamic) -> RhaiResultOf<Duration> {
    let ms = float(FUNCTION, "timeout", value)?;
    if (1.0..=MAX_MS).contains(&ms) {
        return Ok(Duration::from_secs_f64(ms / 1000.0));
    }
    Err(fail(FUNCTION, format!("`timeout` must be from 1 to 600 000 ms, not {value}")))
}
