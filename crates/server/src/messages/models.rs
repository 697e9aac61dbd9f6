//! Lists of models in Anthropic's format.

use axum::http::HeaderMap;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_wire::messages::models::write;

/// Returns `true` if a client uses Anthropic's API, whose requests name its version in a header.
pub(crate) fn is_anthropic_client(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// The maximum `limit` of a page.
const MAX_LIMIT: usize = 1000;

/// Returns the page of models that `limit`, `after_id` and `before_id` of a query select; without them, all
/// models.
///
/// # Errors
/// Returns a request error for an invalid `limit` and for an unknown id.
pub(crate) fn page(models: &[Json], query: Option<&str>) -> Result<Json, Error> {
    let given = |name: &str| {
        let pairs = url::form_urlencoded::parse(query.unwrap_or("").as_bytes());
        pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let place = |name: &'static str| match given(name) {
        None => Ok(None),
        Some(id) => match models.iter().position(|model| model.text("id").is_some_and(|own| own == id)) {
            Some(place) => Ok(Some(place)),
            None => Err(Error::invalid(format!("unknown model `{id}` in {name}"), Some(name))),
        },
    };
    let (after, before) = (place("after_id")?, place("before_id")?);
    let limit = match given("limit").map(|limit| limit.parse::<usize>()) {
        None => models.len(),
        Some(Ok(limit @ 1..=MAX_LIMIT)) => limit,
        Some(_) => {
            let message = format!("invalid limit: expected a whole number from 1 to {MAX_LIMIT}");
            return Err(Error::invalid(message, Some("limit")));
        }
    };
    let chosen = &models[after.map_or(0, |place| place + 1)..];
    let (chosen, has_more) = match before {
        // The page before an id ends there.
        Some(place) => {
            let chosen = &models[..place];
            (&chosen[chosen.len().saturating_sub(limit)..], chosen.len() > limit)
        }
        None => (&chosen[..chosen.len().min(limit)], chosen.len() > limit),
    };
    let entries: Vec<Json> = chosen.iter().map(write).collect();
    let id = |model: Option<&Json>| Json::from(model.and_then(|model| model.get("id")));
    Ok(Json::from([
        ("first_id", id(entries.first())),
        ("last_id", id(entries.last())),
        ("has_more", has_more.into()),
        ("data", entries.into()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_all_models_once_in_both_directions() {
        let models: Vec<Json> = (0..7).map(|at| Json::from([("id", format!("m{at}").into())])).collect();
        let ids = |page: &Json| -> Vec<String> {
            page.list("data").iter().map(|model| model.text_or_empty("id").into()).collect()
        };
        let all: Vec<String> = (0..7).map(|at| format!("m{at}")).collect();
        assert_eq!(ids(&page(&models, None).unwrap()), all);
        for limit in 1..9 {
            for (cursor, edge) in [("after_id", "last_id"), ("before_id", "first_id")] {
                let (mut found, mut next) = (Vec::new(), String::new());
                if cursor == "before_id" {
                    (found, next) = (vec!["m6".to_owned()], "&before_id=m6".to_owned());
                }
                loop {
                    let page = page(&models, Some(&format!("limit={limit}{next}"))).unwrap();
                    match cursor {
                        "after_id" => found.extend(ids(&page)),
                        _ => drop(found.splice(..0, ids(&page))),
                    }
                    if page.get("has_more") != Some(true.into()) {
                        break;
                    }
                    next = format!("&{cursor}={}", page.text_or_empty(edge));
                }
                assert_eq!(found, all, "{limit} {cursor}");
            }
        }
        for wrong in ["limit=0", "limit=1001", "limit=x", "after_id=m9", "before_id="] {
            assert!(page(&models, Some(wrong)).is_err(), "{wrong}");
        }
    }
}
