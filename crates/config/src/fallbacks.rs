//! The models that answer where another cannot: names of other models here, or `provider/model`.

use crate::check::Log;
use crate::model::ModelSettings;
use crate::settings::Config;
use valvehouse_core::text::did_you_mean;

/// The meaning of a name in a list of fallbacks.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// A configured model, with its own fallbacks behind it.
    Model(&'a ModelSettings),
    /// A provider's model by its own name.
    Passed { provider: &'a str, model: &'a str },
}

impl Config {
    /// The fallbacks of a model, in order: the provider, and its name for the model. A configured model brings its own
    /// fallbacks along.
    pub fn fallbacks<'a>(&'a self, model: &'a ModelSettings) -> Vec<(&'a str, &'a str)> {
        let own = (model.provider.as_str(), model.model.as_str());
        let mut found = Vec::new();
        self.gather(&model.fallbacks, &mut found);
        found.retain(|one| *one != own);
        found
    }

    fn gather<'a>(&'a self, names: &'a [String], found: &mut Vec<(&'a str, &'a str)>) {
        for target in names.iter().filter_map(|name| self.target(name)) {
            let one = target.place();
            if !found.contains(&one) {
                found.push(one);
                if let Target::Model(model) = target {
                    self.gather(&model.fallbacks, found);
                }
            }
        }
    }

    fn target<'a>(&'a self, name: &'a str) -> Option<Target<'a>> {
        if let Some(model) = self.models.iter().find(|model| model.name == name) {
            return Some(Target::Model(model));
        }
        let (prefix, model) = name.split_once('/').filter(|(_, model)| !model.is_empty())?;
        let provider = self.providers.iter().find(|provider| provider.name == prefix)?;
        Some(Target::Passed { provider: &provider.name, model })
    }
}

impl<'a> Target<'a> {
    fn place(self) -> (&'a str, &'a str) {
        match self {
            Self::Model(model) => (&model.provider, &model.model),
            Self::Passed { provider, model } => (provider, model),
        }
    }
}

/// Names that mean nothing, and lists that lead back to where they began.
pub(super) fn check(config: &Config, log: &mut Log) {
    let mut in_circles: Vec<&str> = Vec::new();
    for model in &config.models {
        let key = format!("models.{}.fallbacks", model.name);
        let origin = config.origin(&key);
        for name in &model.fallbacks {
            if config.target(name).is_none() {
                log.problem(&origin, format!("{key} names the unknown model {name:?}{}", hint(config, name)));
            }
        }
        let Some(way) = way_back(config, model) else { continue };
        // A circle is reported once, not by each model on it.
        if !way.iter().any(|name| in_circles.contains(name)) {
            let way_in_words = way.join("` to `");
            log.problem(
                &origin,
                format!("{key} leads back to itself, from `{way_in_words}`: remove one of these steps"),
            );
        }
        in_circles.extend(way);
    }
}

fn hint(config: &Config, name: &str) -> String {
    let models = config.models.iter().map(|model| model.name.as_str());
    let providers = config.providers.iter().map(|provider| provider.name.as_str());
    if let Some((prefix, model)) = name.split_once('/')
        && let Some(near) = valvehouse_core::text::nearest(prefix, providers.clone())
        && near != prefix
    {
        return format!("; did you mean `{near}/{model}`?");
    }
    let near = did_you_mean(name, models.clone());
    if !near.is_empty() {
        return near;
    }
    let known: Vec<&str> = models.chain(providers).collect();
    format!("; name a model of this file, or PROVIDER/MODEL; known names: {}", known.join(", "))
}

/// The way from a model over fallbacks to itself.
fn way_back<'a>(config: &'a Config, from: &'a ModelSettings) -> Option<Vec<&'a str>> {
    let mut seen = vec![from.name.as_str()];
    walk(config, from, from, &mut seen)
}

fn walk<'a>(
    config: &'a Config,
    from: &'a ModelSettings,
    at: &'a ModelSettings,
    seen: &mut Vec<&'a str>,
) -> Option<Vec<&'a str>> {
    for name in &at.fallbacks {
        match config.target(name) {
            Some(Target::Model(next)) if next.name == from.name => return Some(vec![&at.name, &next.name]),
            Some(Target::Passed { provider, model })
                if (provider, model) == (from.provider.as_str(), from.model.as_str()) =>
            {
                return Some(vec![&at.name, name]);
            }
            Some(Target::Model(next)) if !seen.contains(&next.name.as_str()) => {
                seen.push(&next.name);
                if let Some(mut way) = walk(config, from, next, seen) {
                    way.insert(0, &at.name);
                    return Some(way);
                }
            }
            _ => {}
        }
    }
    None
}
