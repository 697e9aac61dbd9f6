//! Tools: definitions, requirements, descriptions, validation and calls.

use crate::kernel::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use valvehouse::context::{Context, Turn};
use valvehouse::error::{Error, RequestErrorKind};
use valvehouse::filter::{self, Verdict::Continue};
use valvehouse::json::Json;
use valvehouse::kernel::Kernel;
use valvehouse::tool::{SchemaDialect, Tool, ToolInfo, ToolModule, ToolResult, ToolSpec};

const WEATHER: &str = r#"{
    "city": {"type": "string", "required": true, "description": "City name, e.g. Beijing, Tokyo"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Temperature unit"}}"#;

fn weather() -> Tool {
    let tool = Tool::from_json_fn("get_weather", |args| {
        let city = args.get("city").unwrap_or_else(|| "unknown".into());
        Ok(Json::from([("city", city), ("temp", 25_i64.into()), ("condition", "Sunny".into())]).into())
    });
    let tool = tool.description("Get the current weather for a city. Returns temperature and conditions.");
    tool.tag("weather").parameters(&json(WEATHER)).unwrap()
}

/// Returns a tool that returns its arguments.
fn echo_of(declared: &str) -> Tool {
    echo().parameters(&json(declared)).unwrap()
}

/// Returns a tool whose first calls fail, and the number of its calls.
fn flaky(failures: usize) -> (Tool, Arc<AtomicUsize>) {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let tool = Tool::from_json_fn("flaky", move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        tried if tried < failures => Err(format!("failure {}", tried + 1).into()),
        _ => Ok("done".into()),
    });
    (tool, tries)
}

fn kernel_of(tools: impl IntoIterator<Item = Tool>) -> Kernel {
    Kernel::builder().tools(tools).build()
}

/// Returns the message of a refused call.
async fn refused(kernel: &Kernel, tool: &str, args: &str) -> String {
    rejection(invoke(kernel, tool, args).await).1
}

/// A set of tools, one of which has an additional tag.
struct MyTools;

impl ToolModule for MyTools {
    fn tool_info(&self) -> ToolInfo {
        ToolInfo {
            description: "My custom tool collection".into(),
            tags: vec!["custom".into(), "utility".into()],
        }
    }

    fn tools(&self) -> Vec<Tool> {
        vec![
            Tool::from_json_fn("tool_a", |_| Ok("result_a".into())).description("First tool"),
            Tool::from_json_fn("tool_b", |_| Ok("result_b".into())).description("Second tool").tag("special"),
        ]
    }
}

#[tokio::test]
async fn a_handler_has_one_of_four_forms() {
    fn plain(args: Json) -> Result<ToolResult, valvehouse::tool::ToolError> {
        Ok(args.get("x").unwrap_or_default().into())
    }
    let with_context = Tool::from_json_fn_with_context("with_context", |_, context| {
        let seen = context.get_or("my_key", "nothing");
        Ok(ToolResult { context: Some(context.set("my_key", "changed")), ..seen.into() })
    });
    let with_extra = |name: &str, extra: i64| Tool::from_json_fn(name, move |_| Ok(extra.into()));
    let kernel = Kernel::builder()
        .tool(Tool::from_json_fn("plain", plain))
        .tool(with_context)
        .tool_module(&MyTools)
        .tools([with_extra("one", 1), with_extra("two", 2)])
        .build();
    for (tool, result) in
        [("plain", "7"), ("tool_a", r#""result_a""#), ("tool_b", r#""result_b""#), ("one", "1"), ("two", "2")]
    {
        assert_eq!(invoke(&kernel, tool, r#"{"x":7}"#).await.unwrap().to_string(), result);
    }
    let context = Context::new(json(r#"{"my_key":"mine"}"#));
    let invoked = kernel.invoke("with_context", Json::object(), &context).await.unwrap();
    assert_eq!((invoked.value, invoked.context.get("my_key")), ("mine".into(), Some("changed".into())));
    assert_eq!(context.get("my_key"), Some("mine".into()));
}

#[tokio::test]
async fn a_handler_may_wait() {
    let tool = Tool::new(ToolSpec::new("waits"), |args: Json, _: Context| async move {
        tokio::task::yield_now().await;
        Ok(args.into())
    });
    assert_eq!(invoke(&kernel_of([tool]), "waits", r#"{"x":1}"#).await.unwrap().to_string(), r#"{"x":1}"#);
}

#[test]
fn tools_inherit_the_tags_of_their_module() {
    let kernel = Kernel::builder().tool(weather()).tool_module(&MyTools).build();
    let tags = |name: &str| kernel.find_tool(name).unwrap().spec.tags.clone();
    assert_eq!(tags("tool_a"), ["custom", "utility"]);
    assert_eq!(tags("tool_b"), ["special"]);
    assert_eq!(tags("get_weather"), ["weather"]);
}

#[test]
fn tools_are_listed_in_order_and_found_by_name_and_tag() {
    let kernel = Kernel::builder().tool(weather()).tool_module(&MyTools).tool(echo()).build();
    let names: Vec<_> = kernel.tool_specs().iter().map(|spec| spec.name.clone()).collect();
    assert_eq!(names, ["get_weather", "tool_a", "tool_b", "echo"]);
    let tagged = |tag: &str| kernel.tools_by_tag(tag).into_iter().map(Tool::name).collect::<Vec<_>>();
    assert_eq!(tagged("weather"), ["get_weather"]);
    assert_eq!(tagged("utility"), ["tool_a"]);
    assert!(tagged("nothing").is_empty());
    assert_eq!(kernel.find_tool("tool_b").unwrap().spec.description, "Second tool");
    assert!(kernel.find_tool("tool_c").is_none());
}

#[test]
fn a_later_tool_replaces_an_earlier_one_with_its_name() {
    let kernel = kernel_of([echo(), weather(), echo().description("newer")]);
    assert_eq!(kernel.tool_specs().len(), 2);
    assert_eq!(kernel.tool_specs()[0].description, "newer");
}

#[test]
fn the_schema_has_both_dialects_in_declared_order() {
    let parameters = concat!(
        r#"{"type":"object","properties":{"#,
        r#""city":{"type":"string","description":"City name, e.g. Beijing, Tokyo"},"#,
        r#""unit":{"type":"string","description":"Temperature unit","enum":["celsius","fahrenheit"]}},"#,
        r#""required":["city"]}"#
    );
    let head = concat!(
        r#""name":"get_weather","#,
        r#""description":"Get the current weather for a city. Returns temperature and conditions.""#
    );
    let spec = weather().spec;
    assert_eq!(
        spec.to_tool_schema(SchemaDialect::OpenAi).to_string(),
        format!(r#"{{"type":"function","function":{{{head},"parameters":{parameters}}}}}"#)
    );
    assert_eq!(
        spec.to_tool_schema(SchemaDialect::Anthropic).to_string(),
        format!(r#"{{{head},"input_schema":{parameters}}}"#)
    );
}

#[test]
fn a_minimal_tool_has_a_schema_and_a_thirty_second_timeout() {
    let spec = Tool::from_json_fn("my_tool", |_| Ok("x".into())).spec;
    assert_eq!(
        spec.to_tool_schema(SchemaDialect::OpenAi).to_string(),
        r#"{"type":"function","function":{"name":"my_tool","description":"","parameters":{"type":"object","properties":{}}}}"#
    );
    assert_eq!((spec.timeout, spec.retry.max), (Duration::from_secs(30), 0));
}

#[test]
fn changing_a_returned_schema_does_not_change_the_tool() {
    let kernel = kernel_of([weather()]);
    let city =
        || kernel.tool_schemas(SchemaDialect::OpenAi)[0].at_path("function.parameters.properties.city");
    city().set("type", "integer").unwrap();
    assert_eq!(city().text("type").as_deref(), Some("string"));
}

#[tokio::test]
async fn a_tool_can_be_invoked_without_a_kernel() {
    let turn = Turn::default();
    let output = weather().invoke(json(r#"{"city":"Bonn"}"#), &turn).await.unwrap();
    assert_eq!(output.value.to_string(), r#"{"city":"Bonn","temp":25,"condition":"Sunny"}"#);
    let error = weather().invoke(Json::object(), &turn).await.unwrap_err();
    assert_eq!(error.message, "cannot run get_weather: `city` is required");
    assert!(weather().invoke("Bonn".into(), &turn).await.is_err());
    assert!(echo().invoke(Json::array(), &turn).await.is_err());
}

#[tokio::test]
async fn arguments_reach_the_handler_in_their_declared_type() {
    let kernel = kernel_of([echo_of(
        r#"{"keyword": {"type": "string", "required": true}, "limit": {"type": "integer", "default": 10},
            "where": {"properties": {"floor": {"type": "integer"}, "dry": {"default": true}}}}"#,
    )]);
    for (given, got) in [
        (r#"{"keyword":"tea"}"#, r#"{"keyword":"tea","limit":10}"#),
        (r#"{"other":1,"limit":"3","keyword":5}"#, r#"{"keyword":"5","limit":3}"#),
        (
            r#"{"keyword":"tea","limit":null,"where":"{\"floor\": 2.0, \"x\": 1}"}"#,
            r#"{"keyword":"tea","limit":10,"where":{"floor":2,"dry":true}}"#,
        ),
    ] {
        assert_eq!(invoke(&kernel, "echo", given).await.unwrap().to_string(), got, "{given}");
    }
}

#[tokio::test]
async fn a_handler_never_runs_with_invalid_arguments() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let tool = Tool::from_json_fn("get_weather", move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok("ran".into())
    });
    let tool = tool.parameters(&json(WEATHER)).unwrap().retry(3, Duration::ZERO);
    let kernel = kernel_of([tool]);
    for (args, expected) in [
        ("{}", "`city` is required"),
        (r#"{"city":["Bonn"]}"#, r#"`city` must be a string, not ["Bonn"]"#),
        (
            r#"{"city":"Bonn","unit":"kelvin"}"#,
            r#"`unit` must be one of "celsius", "fahrenheit", not "kelvin""#,
        ),
        (r#"{"unit":"kelvin"}"#, "`city` is required; `unit` must be one of"),
        (r#"["Bonn"]"#, "the arguments must be an object of names and values, not array"),
        ("null", "not null"),
    ] {
        let (by, text, status) = rejection(invoke(&kernel, "get_weather", args).await);
        assert_eq!((by.as_str(), status), ("get_weather", 400), "{args}");
        assert!(text.contains(expected) && text.starts_with("cannot run get_weather: "), "{args}: {text}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_model_receives_all_argument_errors_and_may_retry() {
    let calls_to_make = [("get_weather", r#"{"unit":"kelvin"}"#), ("get_weather", r#"{"city":"Bonn"}"#)];
    let (builder, model) = asking([calls("", &calls_to_make), "done".into()]);
    chat(&builder.tool(weather()).build(), "hi").await.unwrap();
    let results = texts_by_role(&model.requests()[1], "tool");
    let error = json(&results[0]).text("error").unwrap();
    assert!(error.contains("`city` is required") && error.contains("`unit` must be one of"), "{error}");
    assert!(results[1].contains(r#""city":"Bonn""#), "{results:?}");
}

#[tokio::test]
async fn filters_see_the_final_arguments_of_a_tool() {
    let pre = filter::pre_invocation("pre", |ctx| {
        note(ctx.turn(), &format!("pre{}", ctx.args()));
        Ok(Continue)
    });
    let post = filter::post_invocation("post", |ctx| {
        note(ctx.turn(), &format!("post{}", ctx.args()));
        Ok(Continue)
    });
    let kernel =
        Kernel::builder().filters([pre, post]).tool(echo_of(r#"{"list": "array", "n": {"default": 1}}"#));
    let args = json(r#"{"list":"[\"rm\"]","x":1}"#);
    let invoked = kernel.build().invoke("echo", args, &Context::default()).await.unwrap();
    assert_eq!(notes(&invoked.context), r#"pre{"list":["rm"],"n":1} post{"list":["rm"],"n":1}"#);
}

#[tokio::test]
async fn a_filter_may_fix_arguments_but_not_make_them_invalid() {
    let mend = filter::pre_invocation("mend", |ctx| {
        let args = ctx.args();
        args.set("city", "Bonn").unwrap();
        Ok(Continue)
    });
    let kernel = kernel_of([weather()]).with_filter(mend);
    assert!(invoke(&kernel, "get_weather", "{}").await.is_ok());
    let spoil = filter::pre_invocation("spoil", |ctx| {
        ctx.set_args(Json::object());
        Ok(Continue)
    });
    let kernel = kernel_of([weather()]).with_filter(spoil);
    assert!(refused(&kernel, "get_weather", r#"{"city":"Bonn"}"#).await.contains("`city` is required"));
}

#[tokio::test]
async fn an_invalid_declaration_is_rejected_with_all_problems() {
    let wrong = json(r#"{"city": {"type": "strng"}, "unit": {"type": "string", "requird": true}}"#);
    let problems = echo().parameters(&wrong).unwrap_err();
    assert_eq!(problems.0.len(), 2, "{problems:?}");
    assert!(
        problems.0[0].message.contains("did you mean `string`?")
            && problems.0[1].message.contains("did you mean `required`?")
    );
}

#[tokio::test]
async fn a_tool_is_retried_as_declared_and_filters_run_once() {
    for (failures, max, expected) in [(2, 3, Ok("done")), (5, 2, Err("failure 3")), (1, 0, Err("failure 1"))]
    {
        let (tool, tries) = flaky(failures);
        let pre = filter::pre_invocation("pre", |ctx| {
            note(ctx.turn(), "pre");
            Ok(Continue)
        });
        let kernel = kernel_of([tool.retry(max, Duration::from_millis(1))]).with_filter(pre);
        let called = kernel.invoke("flaky", Json::object(), &Context::default()).await;
        match (called, expected) {
            (Ok(invoked), Ok(value)) => {
                assert_eq!((invoked.value, notes(&invoked.context).as_str()), (value.into(), "pre"));
            }
            (result @ Err(_), Err(message)) => assert_eq!(rejection(result).1, message),
            (result, expected) => panic!("{result:?} instead of {expected:?}"),
        }
        assert_eq!(tries.load(Ordering::SeqCst), failures.min(max as usize) + 1);
    }
}

#[tokio::test]
async fn a_tool_over_its_timeout_is_stopped() {
    let endless = Tool::new(ToolSpec::new("endless"), |_: Json, _: Context| std::future::pending());
    let kernel = kernel_of([endless.timeout(Duration::from_millis(20)).retry(1, Duration::ZERO)]);
    let call = tokio::time::timeout(Duration::from_secs(20), refused(&kernel, "endless", "{}"));
    assert_eq!(call.await.unwrap(), "tool endless did not end within 20 ms");
}

#[tokio::test]
async fn an_unknown_tool_is_named_with_the_nearest() {
    match invoke(&kernel_of([weather()]), "get_wether", "{}").await {
        Err(Error::Request { message, kind: RequestErrorKind::NotFound, .. }) => {
            assert_eq!(message, "unknown tool `get_wether`; did you mean `get_weather`?");
        }
        other => panic!("{other:?}"),
    }
}
