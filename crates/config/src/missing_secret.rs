//! Secrets that the settings name and that cannot be read in this environment.

use crate::provider::ProviderSettings;
use crate::schema::{branch, visit};
use crate::settings::{Config, root};
use crate::tree::Setting;
use valvehouse_core::text::optional;
use valvehouse_grants::{SecretSource, SecretUnread};

/// A secret that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadSecret {
    /// The dotted key of the setting, as [`Config::origin`] takes it: `admin.key`, `providers.openai.api_key`.
    pub key: String,
    /// The reason, and how to fix it.
    pub why: String,
}

impl Config {
    /// Returns the secrets that these settings name and that cannot be read now: variables that are not set, files that
    /// are missing. A provider without `api_key` needs the variable that its service usually has.
    pub fn unread_secrets(&self) -> Vec<UnreadSecret> {
        self.unread_secrets_with(|name| std::env::var(name).ok())
    }

    /// The same with another environment.
    pub(crate) fn unread_secrets_with(&self, env: impl Fn(&str) -> Option<String>) -> Vec<UnreadSecret> {
        let mut unread = Vec::new();
        visit(root(), Some(&self.tree), "", &mut |schema, setting, key| {
            let is_secret = matches!(
                setting.map_or(schema, |setting| branch(schema, setting))["format"].as_str(),
                Some("secret" | "key")
            );
            let text =
                setting.and_then(Setting::as_text).filter(|_| is_secret && !key.starts_with("providers."));
            if let Some(Ok(source)) = text.map(|text| SecretSource::parse(text, &self.project))
                && let Err(why) = source.read_with(&env)
            {
                unread.push(UnreadSecret { key: key.to_owned(), why: why.to_string() });
            }
            true
        });
        for provider in &self.providers {
            let failed = provider.of_deployments().into_iter().find_map(|own| {
                let (key, why) = of_provider(&own, &env).err()?;
                let deployment = own.deployments.iter().find(|deployment| deployment.has_keys());
                Some((optional(deployment, |one| format!("deployments.{}.", one.name)) + key, why))
            });
            if let Some((key, why)) = failed {
                unread.push(UnreadSecret { key: format!("providers.{}.{key}", provider.name), why });
            }
        }
        unread
    }
}

/// Returns the setting of a key that cannot be read, and the reason.
fn of_provider(
    provider: &ProviderSettings,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(), (&'static str, String)> {
    let further = provider.api_keys.iter().map(|further| ("api_keys", &further.key));
    let mut sources = provider.api_key.iter().map(|source| ("api_key", source)).chain(further).peekable();
    if sources.peek().is_some() {
        let read = |(key, source): (_, &SecretSource)| match source.read_with(&env) {
            Ok(_) => Ok(()),
            Err(why) => Err((key, why.to_string())),
        };
        return sources.try_for_each(read);
    }
    let Some(usual) = provider.usual_key() else { return Ok(()) };
    match SecretSource::Env(usual.to_owned()).read_with(env) {
        Err(SecretUnread::Env(name)) => {
            Err(("api_key", format!("the environment variable {name} is not set; {}", provider.key_help())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    #[test]
    fn unreadable_secrets_are_listed_with_the_key_of_their_setting() {
        let text = r#"
            [server]
            keys = ["sk-1", "env:ANN_KEY"]
            [admin]
            key = "file:missing.key"
            [otlp]
            headers = { authorization = "env:COLLECTOR" }
            [[providers]]
            name = "own"
            kind = "openai"
            api_key = "env:OWN_KEY"
            [[providers]]
            name = "usual"
            kind = "groq"
            [[providers]]
            name = "near"
            kind = "ollama"
            [[mcp]]
            name = "far"
            url = "https://example.com/mcp"
            auth = "env:FAR_TOKEN"
            [[mcp]]
            name = "local"
            command = "npx"
            env = { PLAIN = "yes", TOKEN = "env:LOCAL_TOKEN" }
            [oauth]
            authorization_servers = ["https://login.example.com"]
            resource = "https://example.com/mcp"
            introspection_url = "https://login.example.com/introspect"
            client_id = "house"
            client_secret = "env:INTROSPECTION"
            "#;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("valvehouse.toml"), text).unwrap();
        let config = Config::load_with(folder.path(), [], &[]).unwrap();
        let keys = |env: &[&str]| -> Vec<String> {
            let unread = config.unread_secrets_with(|name| env.contains(&name).then(|| "k".to_owned()));
            unread.into_iter().map(|unread| unread.key).collect()
        };
        assert_eq!(
            keys(&["OWN_KEY"]),
            [
                "server.keys",
                "admin.key",
                "otlp.headers.authorization",
                "oauth.client_secret",
                "mcp.far.auth",
                "mcp.local.env.TOKEN",
                "providers.usual.api_key"
            ]
        );
        let others =
            ["ANN_KEY", "COLLECTOR", "OWN_KEY", "GROQ_API_KEY", "FAR_TOKEN", "LOCAL_TOKEN", "INTROSPECTION"];
        assert_eq!(keys(&others), ["admin.key"]);
        let unread = config.unread_secrets_with(|_| None);
        let usual = unread.iter().find(|unread| unread.key == "providers.usual.api_key").unwrap();
        assert!(usual.why.contains("GROQ_API_KEY is not set; set the environment variable"), "{}", usual.why);
        let places: Vec<_> = unread.iter().map(|unread| config.origin(&unread.key)).collect();
        assert!(matches!(places[0], Origin::File { line: 3, .. }), "{places:?}");
        assert!(matches!(places[4], Origin::File { line: 21, .. }), "{places:?}");
    }

    #[test]
    fn a_further_key_that_cannot_be_read_is_listed_with_its_own_setting() {
        let text = "[[providers]]\nname = \"openai\"\napi_key = \"env:FIRST\"\napi_keys = [\"env:SECOND\"]\n\
            deployments = [{ name = \"east\", base_url = \"https://e\" },\n{ name = \"west\", base_url = \"https://w\",\n\
            api_keys = [{ key = \"env:WEST\" }] }]\n";
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("valvehouse.toml"), text).unwrap();
        let config = Config::load_with(folder.path(), [], &[]).unwrap();
        for (set, expected) in [
            (&["FIRST", "SECOND", "WEST"][..], None),
            (&["FIRST", "SECOND"], Some(("providers.openai.deployments.west.api_keys", 7))),
            (&["FIRST"], Some(("providers.openai.api_keys", 4))),
            (&["SECOND"], Some(("providers.openai.api_key", 3))),
        ] {
            let unread = config.unread_secrets_with(|name| set.contains(&name).then(|| "k".to_owned()));
            let found = unread.first().map(|unread| (unread.key.as_str(), config.origin(&unread.key)));
            let found = found.map(|(key, origin)| match origin {
                Origin::File { line, .. } => (key, line),
                other => panic!("{other:?}"),
            });
            assert_eq!(found, expected, "{set:?}");
        }
    }
}
