//! Conversion of an agent's answers to Rust types.

use super::agent::{Agent, AgentResponse};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use valvehouse_core::error::Error;
use valvehouse_core::tool::json_schema_of;
use valvehouse_json::Json;

impl Agent {
    /// Sends a user message and returns the answer as a value. The model receives the JSON Schema of `T` and is
    /// called again if its answer does not match.
    ///
    /// ```no_run
    /// # async fn example(mut agent: valvehouse_agent::Agent) -> Result<(), valvehouse_core::error::Error> {
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Weather {
    ///     city: String,
    ///     degrees: f64,
    /// }
    /// let weather: Weather = agent.ask("How warm is it in Oslo?").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Agent::run`], [`Error::Misshapen`] if no answer matches, and [`Error::Paused`]
    /// if the run pauses for a person. In that case, pass the response of [`Agent::resume`] to
    /// [`AgentResponse::parse`].
    pub async fn ask<T: DeserializeOwned + JsonSchema>(&mut self, text: &str) -> Result<T, Error> {
        let schema =
            Json::from([("name", T::schema_name().as_ref().into()), ("schema", json_schema_of::<T>())]);
        let format = Json::from([("type", "json_schema".into()), ("json_schema", schema)]);
        let before = self.state.response_format.replace(format);
        self.assemble()?;
        let answer = self.run(text).await;
        self.state.response_format = before;
        self.assemble()?;
        let answer = answer?;
        if answer.is_paused() {
            return Err(Error::Paused);
        }
        answer.parse()
    }
}

impl AgentResponse {
    /// Parses the answer, which is JSON, as a value.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Misshapen`] if the text of the answer is not JSON of this type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.text()).map_err(|error| Error::Misshapen {
            message: format!("the answer does not have the requested form: {error}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::sync::Arc;
    use valvehouse_core::provider::CannedProvider;

    #[derive(Deserialize, JsonSchema, Debug, PartialEq)]
    struct Weather {
        city: String,
        degrees: f64,
    }

    #[tokio::test]
    async fn a_typed_answer_is_parsed_and_sets_the_response_format_of_its_run_alone() {
        let wrong = r#"{"city": "Oslo"}"#;
        let right = r#"{"city": "Oslo", "degrees": 3.5}"#;
        let provider = CannedProvider::new([wrong, right, "as you like"]);
        let mut agent = Agent::builder().id("helper").provider(Arc::new(provider.clone())).build().unwrap();
        let weather: Weather = agent.ask("how warm is it?").await.unwrap();
        assert_eq!(weather, Weather { city: "Oslo".into(), degrees: 3.5 });
        assert_eq!(agent.run("thanks").await.unwrap().text(), "as you like");
        let requests = provider.requests();
        let schema = requests[0].at_path("response_format.json_schema.schema.properties.degrees.type");
        assert_eq!(schema, "number".into());
        assert_eq!(requests.len(), 3);
        assert!(requests[2].get("response_format").is_none());
    }
}
