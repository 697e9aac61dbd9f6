//! Tools whose arguments have a Rust type, from which the JSON Schema for models is derived.

use super::callable::{Handler, Tool};
use super::parameters::Parameters;
use super::result::{ToolError, ToolResult};
use super::spec::ToolSpec;
use super::task;
use crate::context::{Context, Turn};
use crate::error::{BoxError, Rejection, with_sources};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;
use tracing::Instrument;
use valvehouse_json::Json;

impl Tool {
    /// Creates a tool from an async function of its arguments.
    ///
    /// Models receive the JSON Schema of `A`; its doc comment is the description of the tool. Arguments are
    /// converted to their declared types, as with [`Tool::parameters`], and the result is serialized. Errors
    /// are returned to the model; a [`ToolError`] preserves its status and its `fatal` flag.
    ///
    /// The function runs as a task of the runtime. If the runtime has another thread, the timeout therefore
    /// ends the wait even for a function that does not yield. Functions that block belong in
    /// [`Tool::blocking`].
    ///
    /// ```
    /// # use valvehouse_core::tool::Tool;
    /// /// Adds two numbers.
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Sum {
    ///     /// The first number.
    ///     a: i64,
    ///     /// The second number.
    ///     b: i64,
    /// }
    ///
    /// let add = Tool::from_fn("add", |sum: Sum| async move {
    ///     Ok(sum.a.checked_add(sum.b).ok_or("the sum is too large")?)
    /// });
    /// assert_eq!(add.spec.description, "Adds two numbers.");
    /// ```
    pub fn from_fn<A, O, F>(name: &str, run: impl Fn(A) -> F + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
        F: Future<Output = Result<O, BoxError>> + Send + 'static,
    {
        Self::from_fn_with_context(name, move |args, _| run(args))
    }

    /// Creates a tool from an async function of its arguments and the context of the turn; see
    /// [`Tool::from_fn`]. Changes to variables apply to this call only.
    pub fn from_fn_with_context<A, O, F>(
        name: &str,
        run: impl Fn(A, Context) -> F + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
        F: Future<Output = Result<O, BoxError>> + Send + 'static,
    {
        Self::from_fn_with_turn(name, move |args, turn| run(args, turn.context().clone()))
    }

    /// Creates a tool from an async function of its arguments and the turn, with which it can ask the user and
    /// send events; see [`Tool::from_fn`].
    pub fn from_fn_with_turn<A, O, F>(name: &str, run: impl Fn(A, Turn) -> F + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
        F: Future<Output = Result<O, BoxError>> + Send + 'static,
    {
        let start = move |args, turn| {
            let answer = run(args, turn);
            let task = async move { result_of(answer.await) };
            task::answer_of(tokio::spawn(task.in_current_span()))
        };
        Self::new(spec_of::<A>(name), TypedHandler { start, args: PhantomData })
    }

    /// Creates a tool from a blocking function, which runs on a blocking thread; see [`Tool::from_fn`]. The
    /// timeout ends only the wait for the function.
    pub fn blocking<A, O>(name: &str, run: impl Fn(A) -> Result<O, BoxError> + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + 'static,
    {
        let run = Arc::new(run);
        let start = move |args, _| {
            let run = run.clone();
            task::blocking(move || result_of(run(args)))
        };
        Self::new(spec_of::<A>(name), TypedHandler { start, args: PhantomData })
    }
}

/// A function of typed arguments, and the code that starts it.
struct TypedHandler<A, S> {
    start: S,
    args: PhantomData<fn(A)>,
}

impl<A, S, F> Handler for TypedHandler<A, S>
where
    A: DeserializeOwned + 'static,
    S: Fn(A, Turn) -> F + Send + Sync,
    F: Future<Output = Result<ToolResult, ToolError>> + Send,
{
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            // A function without parameters takes `()`.
            let args = match TypeId::of::<A>() == TypeId::of::<()>() {
                true => Value::Null,
                false => Value::from(&args),
            };
            let args = serde_json::from_value(args);
            let args = args.map_err(|error| Rejection::new(format!("invalid arguments: {error}")))?;
            (self.start)(args, turn).await
        })
    }
}

fn result_of<O: Serialize>(result: Result<O, BoxError>) -> Result<ToolResult, ToolError> {
    let value = result.map_err(|error| match error.downcast::<ToolError>() {
        Ok(error) => *error,
        Err(error) => with_sources(&*error).into(),
    })?;
    let value = serde_json::to_value(value);
    let value = value.map_err(|error| format!("cannot write the result as JSON: {error}"))?;
    Ok(Json::from(value).into())
}

/// Returns the JSON Schema of a type, with all definitions inlined.
pub fn json_schema_of<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    Json::from(settings.into_generator().into_root_schema_for::<T>().to_value())
}

/// Returns the specification of a tool with arguments of this type.
fn spec_of<A: JsonSchema + 'static>(name: &str) -> ToolSpec {
    let mut spec = ToolSpec::new(name);
    if TypeId::of::<A>() == TypeId::of::<()>() {
        return spec;
    }
    let schema = json_schema_of::<A>();
    spec.description = schema.text_or_empty("description").to_string();
    let declared = declared(&schema).and_then(|declared| Parameters::declare(&declared).ok());
    // Constraints without an equivalent in declarations are checked by deserialization alone.
    spec.parameters = declared.unwrap_or_else(|| Parameters::of_schema(schema));
    spec
}

/// Returns the declaration that is equivalent to the schema of an object; `None` if there is none.
fn declared(schema: &Json) -> Option<Json> {
    let required = schema.list("required");
    let declared = Json::object();
    for (name, property) in schema.field("properties").entries() {
        let property = shape(&property)?;
        if required.iter().any(|own| own.as_str() == Some(&*name)) {
            property.put("required", true);
        }
        declared.put(&name, property);
    }
    let is_plain = |key: &str| ["type", "title", "description", "properties", "required"].contains(&key);
    let is_object = schema.text("type").as_deref() == Some("object");
    (is_object && schema.entries().iter().all(|(key, _)| is_plain(key))).then_some(declared)
}

/// Returns the declaration of one value.
fn shape(schema: &Json) -> Option<Json> {
    let shape = Json::object();
    for (key, value) in schema.entries() {
        match &*key {
            "title" | "format" => {}
            // An optional value: null counts as missing.
            "type" if value.as_array().is_some() => {
                let types = value.items();
                shape.put("type", only(types.iter().filter(|own| own.as_str() != Some("null")))?.clone());
            }
            "default" if value.is_null() => {}
            "enum" => {
                let allowed = value.items().into_iter().filter(|one| !one.is_null());
                shape.put("enum", allowed.collect::<Vec<_>>());
            }
            "anyOf" => {
                let choices = value.items();
                let others = choices.iter().filter(|own| own.text("type").as_deref() != Some("null"));
                self::shape(only(others)?)?
                    .entries()
                    .into_iter()
                    .for_each(|(key, value)| shape.put(&key, value));
            }
            "type" | "description" | "default" | "minimum" | "maximum" | "pattern" => {
                shape.put(&key, value.deep_clone());
            }
            "items" => shape.put("items", self::shape(&value)?),
            "properties" => shape.put("properties", declared(schema)?),
            "required" => {}
            _ => return None,
        }
    }
    Some(shape)
}

/// Returns the only element; `None` if there are none or several.
fn only<'a>(mut all: impl Iterator<Item = &'a Json>) -> Option<&'a Json> {
    all.next().filter(|_| all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::time::{Duration, Instant};

    /// Finds trips.
    #[derive(Deserialize, JsonSchema)]
    struct Search {
        /// The city to start from.
        from: String,
        #[serde(default)]
        #[schemars(range(max = 90))]
        days: u32,
        class: Option<Class>,
        stops: Option<Vec<Stop>>,
    }

    #[derive(Deserialize, JsonSchema, Debug)]
    #[serde(rename_all = "lowercase")]
    enum Class {
        First,
        Second,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Stop {
        city: String,
    }

    /// A value by its name or by its number.
    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum Id {
        Name(String),
        Number(i64),
    }

    #[derive(Deserialize, JsonSchema)]
    struct ById {
        id: Id,
    }

    #[derive(Serialize)]
    struct Trip {
        text: String,
        days: u32,
    }

    fn search() -> Tool {
        Tool::from_fn("search", |search: Search| async move {
            let stops: Vec<String> = search.stops.into_iter().flatten().map(|stop| stop.city).collect();
            let text = format!("{} {:?} {stops:?}", search.from, search.class);
            Ok(Trip { text, days: search.days })
        })
    }

    async fn call(tool: &Tool, args: &str) -> Result<String, ToolError> {
        let result = tool.invoke(Json::parse(args.as_bytes()).unwrap(), &Turn::default()).await;
        result.map(|result| result.value.to_string())
    }

    #[tokio::test]
    async fn models_see_the_schema_of_the_type_and_functions_get_its_values() {
        let tool = search();
        let schema = tool.spec.parameters.schema();
        assert_eq!(tool.spec.description, "Finds trips.");
        assert_eq!(schema.at_path("properties.from.description"), "The city to start from.".into());
        assert_eq!(schema.at_path("properties.class.enum.0"), "first".into());
        assert_eq!(schema.field("required").to_string(), r#"["from"]"#);
        let args = r#"{"from": "Oslo", "days": "3", "class": "second", "stops": [{"city": "Hamar"}]}"#;
        let trip = r#"{"text":"Oslo Some(Second) [\"Hamar\"]","days":3}"#;
        assert_eq!(call(&tool, args).await.unwrap(), trip);
        assert!(call(&tool, r#"{"from": "Oslo", "class": null}"#).await.is_ok());
    }

    #[tokio::test]
    async fn invalid_arguments_are_rejected_with_the_reason() {
        let tool = search();
        let missing = call(&tool, "{}").await.unwrap_err();
        assert!(missing.message.contains("from"), "{missing}");
        let wrong = call(&tool, r#"{"from": "Oslo", "class": "third"}"#).await.unwrap_err();
        assert!(wrong.message.contains("third") && wrong.message.contains("first"), "{wrong}");
        let long = call(&tool, r#"{"from": "Oslo", "days": 91}"#).await.unwrap_err();
        assert!(long.message.contains("90"), "{long}");
        // A type without an equivalent declaration is checked by deserialization.
        let by_id = Tool::from_fn("by_id", |by: ById| async move {
            Ok(match by.id {
                Id::Name(name) => name,
                Id::Number(number) => number.to_string(),
            })
        });
        assert_eq!(call(&by_id, r#"{"id": 7}"#).await.unwrap(), "\"7\"");
        assert_eq!(call(&by_id, r#"{"id": "x"}"#).await.unwrap(), "\"x\"");
        let wrong = call(&by_id, r#"{"id": []}"#).await.unwrap_err();
        assert!(wrong.message.contains("invalid arguments"), "{wrong}");
        assert_eq!(wrong.status, 400);
    }

    #[tokio::test]
    async fn a_typed_tool_may_use_the_turn_of_its_call() {
        let chat = Tool::from_fn_with_turn("chat", |search: Search, turn| async move {
            Ok(format!("{} {}", turn.facts().chat_id, search.from))
        });
        let facts = crate::context::TurnFacts { chat_id: "c1".into(), ..Default::default() };
        let turn = Turn::new(facts, Context::default(), crate::context::Events::default());
        let args = Json::parse(br#"{"from": "Oslo"}"#).unwrap();
        assert_eq!(chat.invoke(args, &turn).await.unwrap().value, "c1 Oslo".into());
    }

    #[tokio::test]
    async fn a_typed_tool_accepts_any_error_through_the_question_mark_operator() {
        let parse = Tool::from_fn("parse", |search: Search| async move {
            if search.from == "nowhere" {
                return Err(ToolError::from("closed").fatal().into());
            }
            Ok(search.from.parse::<i64>()?)
        });
        assert_eq!(call(&parse, r#"{"from": "12"}"#).await.unwrap(), "12");
        let error = call(&parse, r#"{"from": "Oslo"}"#).await.unwrap_err();
        assert_eq!((error.message.as_str(), error.fatal), ("invalid digit found in string", false));
        let error = call(&parse, r#"{"from": "nowhere"}"#).await.unwrap_err();
        assert_eq!((error.message.as_str(), error.fatal), ("closed", true));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_timeout_ends_the_wait_for_a_blocking_function() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let blocking = Tool::blocking("blocks", move |_: Search| Ok(held.lock().unwrap().recv().is_ok()));
        let spinning = Tool::from_fn("spins", |_: Search| async {
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            Ok(())
        });
        for tool in [blocking, spinning] {
            let tool = tool.timeout(Duration::from_millis(50));
            let error = call(&tool, r#"{"from": "Oslo"}"#).await.unwrap_err();
            assert!(error.message.contains("did not end within 50 ms"), "{error}");
        }
        drop(release);
    }

    #[tokio::test]
    async fn a_panic_ends_only_its_own_call() {
        let tool = Tool::from_fn("panics", |search: Search| async move {
            assert!(search.days > 0, "no days");
            Ok(())
        });
        let error = call(&tool, r#"{"from": "Oslo", "days": 0}"#).await.unwrap_err();
        assert_eq!(error.message, "tool panics panicked");
        assert!(call(&tool, r#"{"from": "Oslo", "days": 2}"#).await.is_ok());
    }
}
