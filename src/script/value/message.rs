//! The words of chat: `message.text`, `messages.last(role)`, `event.text`.

use super::convert::{error, json_of, live, misplaced};
use super::{List, Map, Shape};
use crate::chat::{event, history, message};
use crate::json::{Array, Json};
use rhai::{Dynamic, EvalAltResult, FnNamespace, FuncRegistration, INT, ImmutableString, Module};

type Answer<T> = Result<T, Box<EvalAltResult>>;

fn text_dynamic(text: &str) -> Dynamic {
    ImmutableString::from(text).into()
}

fn text_argument(value: &Dynamic) -> Answer<ImmutableString> {
    match value.as_immutable_string_ref() {
        Ok(text) => Ok(text.clone()),
        Err(_) if value.is_unit() => Ok(ImmutableString::new()),
        Err(kind) => Err(error(format!("text must be a string, is {kind}"))),
    }
}

/// Properties that are no keys.
pub(super) mod property {
    use super::*;

    #[derive(Clone, Copy)]
    pub(in crate::script::value) struct Property {
        shapes: &'static [Shape],
        pub(in crate::script::value) read: fn(&Map) -> Answer<Dynamic>,
        pub(in crate::script::value) write: fn(&Map, &Dynamic) -> Answer<()>,
    }

    impl Property {
        /// Whether a map of this shape has the property.
        pub(in crate::script::value) fn answers(&self, map: &Map) -> bool {
            self.shapes.contains(&map.shape)
        }
    }

    fn json(map: &Map) -> Json {
        Json::Object(map.object.clone())
    }

    /// Rhai hands back what a getter gave after calling a method on it; that is no assignment.
    fn read_only(name: &str, value: &Dynamic) -> Answer<()> {
        if value.is::<List>() || value.is_array() {
            return Ok(());
        }
        Err(error(format!("`{name}` can only be read")))
    }

    const EVENT_TEXT: Property = Property {
        shapes: &[Shape::Event],
        read: |map| Ok(text_dynamic(&event::text(&json(map)))),
        write: |map, value| {
            event::set_text(&json(map), &text_argument(value)?);
            Ok(())
        },
    };

    const TEXT: Property = Property {
        shapes: &[Shape::Event, Shape::Message],
        read: |map| match map.shape {
            Shape::Event => (EVENT_TEXT.read)(map),
            _ => Ok(text_dynamic(&message::text_of(&json(map)))),
        },
        write: |map, value| match map.shape {
            Shape::Event => (EVENT_TEXT.write)(map, value),
            _ => {
                let (message, text) = (json(map), text_argument(value)?);
                if message::text_of(&message) != text.as_str() {
                    message::set_text(&message, &text);
                }
                Ok(())
            }
        },
    };

    const REASONING: Property = Property {
        shapes: &[Shape::Event],
        read: |map| Ok(text_dynamic(&event::reasoning(&json(map)))),
        write: |map, value| {
            event::set_reasoning(&json(map), &text_argument(value)?);
            Ok(())
        },
    };

    fn choice(map: &Map) -> Option<Json> {
        map.object.get("choices")?.at(0)
    }

    const FINISH_REASON: Property = Property {
        shapes: &[Shape::Event],
        read: |map| {
            let reason = choice(map).and_then(|choice| choice.get("finish_reason"));
            Ok(live(&reason.unwrap_or_default(), Shape::Plain))
        },
        write: |map, value| match choice(map) {
            Some(choice) => choice.set("finish_reason", json_of(value)?).map_err(misplaced),
            None => map.object.set("finish_reason", json_of(value)?).map_err(misplaced),
        },
    };

    const INDEX: Property = Property {
        shapes: &[Shape::Event],
        read: |map| {
            let index = choice(map).and_then(|choice| choice.get("index"));
            Ok(live(&index.unwrap_or_else(|| 0_i64.into()), Shape::Plain))
        },
        write: |map, value| match choice(map) {
            Some(choice) => choice.set("index", json_of(value)?).map_err(misplaced),
            None => map.object.set("index", json_of(value)?).map_err(misplaced),
        },
    };

    const TOOL_CALLS: Property = Property {
        shapes: &[Shape::Event],
        read: |map| {
            let calls = event::delta(&json(map)).and_then(|delta| delta.get("tool_calls"));
            Ok(live(&calls.unwrap_or_default(), Shape::Plain))
        },
        write: |map, value| match event::delta(&json(map)) {
            Some(delta) => delta.set("tool_calls", json_of(value)?).map_err(misplaced),
            None => map.object.set("tool_calls", json_of(value)?).map_err(misplaced),
        },
    };

    const TEXTS: Property = Property {
        shapes: &[Shape::Event, Shape::Message, Shape::Body],
        read: |map| {
            let places = event::texts(&json(map));
            Ok(places.into_iter().map(Dynamic::from).collect::<rhai::Array>().into())
        },
        write: |_, value| read_only("texts", value),
    };

    const IMAGES: Property = Property {
        shapes: &[Shape::Message],
        read: |map| {
            let parts = map.object.get("content").map(|content| content.items()).unwrap_or_default();
            let is_image = |part: &Json| part.text("type").is_some_and(|kind| kind.contains("image"));
            let images = parts.into_iter().filter(is_image).collect();
            Ok(Dynamic::from(List { shape: Shape::Plain, array: Array::new(images) }))
        },
        write: |_, value| read_only("images", value),
    };

    const PARTS: Property = Property {
        shapes: &[Shape::Message],
        read: |map| Ok(live(&parts(map), Shape::Plain)),
        write: |map, value| {
            let value = json_of(value)?;
            if value == parts(map) { Ok(()) } else { map.object.set("content", value).map_err(misplaced) }
        },
    };

    /// The content as a list of parts; plain text is one part.
    fn parts(map: &Map) -> Json {
        match map.object.get("content") {
            Some(parts @ Json::Array(_)) => parts,
            Some(Json::Text(text)) => {
                let part = Json::object();
                let _ = part.set("type", "text");
                let _ = part.set("text", text);
                vec![part].into()
            }
            _ => Json::array(),
        }
    }

    /// The property of that name.
    pub(in crate::script::value) fn named(name: &str) -> Option<&'static Property> {
        Some(match name {
            "text" => &TEXT,
            "data" => &EVENT_TEXT,
            "reasoning" => &REASONING,
            "finish_reason" => &FINISH_REASON,
            "index" => &INDEX,
            "tool_calls" => &TOOL_CALLS,
            "texts" => &TEXTS,
            "images" => &IMAGES,
            "parts" => &PARTS,
            _ => return None,
        })
    }
}

pub(super) fn register(module: &mut Module) {
    fn pure(name: &'static str) -> FuncRegistration {
        FuncRegistration::new(name).with_purity(true).with_namespace(FnNamespace::Global)
    }
    pure("last").set_into_module(module, |list: &mut List| {
        list.array.last().map_or(Dynamic::UNIT, |item| live(&item, list.shape.below_index()))
    });
    pure("last").set_into_module(module, |list: &mut List, role: &str| {
        let found =
            list.array.with(|items| items.iter().rev().find(|item| history::is_role(item, role)).cloned());
        found.map_or(Dynamic::UNIT, |item| live(&item, Shape::Message))
    });
    pure("count").set_into_module(module, |list: &mut List, role: &str| {
        list.array.with(|items| items.iter().filter(|item| history::is_role(item, role)).count()) as INT
    });
    pure("tail").set_into_module(module, |list: &mut List, count: INT| {
        let items = list.array.items();
        let from = items.len().saturating_sub(usize::try_from(count).unwrap_or(0));
        List { shape: list.shape, array: Array::new(items[from..].to_vec()) }
    });
    // Shortens the list and hands it back, so that both `messages.keep_last(4);` and
    // `body.messages = body.messages.keep_last(4);` say what they mean.
    pure("keep_last").set_into_module(module, |list: &mut List, count: INT| -> Answer<List> {
        let kept = history::keep_last(&list.array.items(), usize::try_from(count).unwrap_or(0));
        if kept.len() != list.array.len() {
            list.array.replace(kept).map_err(misplaced)?;
        }
        Ok(list.clone())
    });
    pure("get$system").set_into_module(module, |list: &mut List| {
        system(list).map_or(Dynamic::UNIT, |found| text_dynamic(&message::text_of(&found)))
    });
    pure("set$system").set_into_module(module, |list: &mut List, text: Dynamic| -> Answer<()> {
        write_system(list, &text_argument(&text)?, |_, new| new.to_owned())
    });
    pure("append_system").set_into_module(module, |list: &mut List, text: &str| -> Answer<()> {
        write_system(list, text, |old, new| format!("{old}\n\n{new}"))
    });
    pure("prepend_system").set_into_module(module, |list: &mut List, text: &str| -> Answer<()> {
        write_system(list, text, |old, new| format!("{new}\n\n{old}"))
    });

    module.set_custom_type::<event::TextPlace>("text");
    pure("get$text").set_into_module(module, |place: &mut event::TextPlace| text_dynamic(&place.text()));
    pure("set$text").set_into_module(module, |place: &mut event::TextPlace, text: Dynamic| -> Answer<()> {
        place.set_text(&text_argument(&text)?);
        Ok(())
    });
    pure("get$kind").set_into_module(module, |place: &mut event::TextPlace| text_dynamic(place.kind));
    for name in ["to_string", "to_debug", "print", "debug"] {
        pure(name).set_into_module(module, |place: &mut event::TextPlace| text_dynamic(&place.text()));
    }
}

fn system(list: &List) -> Option<Json> {
    list.array.with(|items| {
        items
            .iter()
            .find(|item| history::is_role(item, "system") || history::is_role(item, "developer"))
            .cloned()
    })
}

fn write_system(list: &List, text: &str, join: fn(&str, &str) -> String) -> Answer<()> {
    match system(list) {
        Some(found) => {
            let old = message::text_of(&found);
            let text = if old.is_empty() { text.to_owned() } else { join(&old, text) };
            message::set_text(&found, &text);
            Ok(())
        }
        None => list.array.insert(0, message::system(text)).map_err(misplaced),
    }
}
