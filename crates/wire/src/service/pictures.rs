//! Pictures with the right media types, and messages for models that read texts only.

use super::draft::{Draft, Slot};
use super::kind::ServiceKind;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::content_blocks::reseal;
use valvehouse_core::chat::message::{self, TEXT_BREAK, role_of, text_part};
use valvehouse_json::{Json, Object};

/// The media types of images by the beginning of their data in base64.
const IMAGES: [(&str, &str); 4] =
    [("/9j/", "image/jpeg"), ("iVBORw0KGgo", "image/png"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp")];
const PDF: &str = "application/pdf";

/// Returns the media type of an image, judged by the beginning of its base64.
pub(crate) fn media_type(base64: &str) -> Option<&'static str> {
    IMAGES.iter().find(|(start, _)| base64.starts_with(start)).map(|(_, kind)| *kind)
}

/// Corrects the parts with pictures: their media types follow their data, a PDF is a file, and an address is in an object.
pub(super) fn correct(draft: &mut Draft, kind: ServiceKind) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        let Some(Json::Array(parts)) = fields.has_containers().then(|| fields.field("content")) else {
            continue;
        };
        let parts = parts.items();
        let new: Vec<Option<Json>> = parts.iter().map(|part| corrected(part, kind)).collect();
        if new.iter().any(Option::is_some) {
            let parts = new.into_iter().zip(parts).map(|(new, old)| new.unwrap_or_else(|| old.deep_clone()));
            draft.edit(at, "messages.content").put("content", parts.collect::<Vec<_>>());
        }
    }
}

/// Returns the part to send instead of one with a picture; `None` if it is right.
fn corrected(part: &Json, kind: ServiceKind) -> Option<Json> {
    let given = part.is_text("type", "image_url").then(|| part.field("image_url"))?;
    let url = if given.as_str().is_some() { given.clone() } else { given.field("url") };
    let url = url.as_str()?;
    let data = url.split_once(',').filter(|(head, _)| head.starts_with("data:") && head.ends_with(";base64"));
    let named = data.map(|(head, _)| head["data:".len()..].split(';').next().unwrap_or(""));
    let of_data = |data: &str| if data.starts_with("JVBERi") { Some(PDF) } else { media_type(data) };
    let real = data.and_then(|(_, data)| of_data(data)).or(named.filter(|named| *named == PDF));
    let own = real.filter(|real| Some(*real) != named).zip(data);
    let own = own.map(|(real, (_, data))| format!("data:{real};base64,{data}"));
    // Gemini reads it there.
    if real == Some(PDF) && kind != ServiceKind::Gemini {
        let url = own.as_deref().unwrap_or(url);
        let file = Json::from([("filename", "document.pdf".into()), ("file_data", url.into())]);
        return Some(Json::from([("type", "file".into()), ("file", file)]));
    }
    if own.is_none() && given.as_str().is_none() {
        return None;
    }
    let others = given.entries().into_iter().filter(|(key, _)| key != "url");
    let image = others.chain([("url".into(), own.as_deref().unwrap_or(url).into())]);
    let image: Json = image.collect::<Object>().into();
    let fields = part.entries().into_iter().map(|(key, value)| match key == "image_url" {
        true => (key, image.clone()),
        false => (key, value),
    });
    Some(fields.collect::<Object>().into())
}

/// The text in the place of a picture of another role than the user.
const BELOW: &str = "[The image or file of this message is in the next message of the user.]";

/// Gives the pictures and files of the model and of instructions to the user, who alone may send some.
pub(super) fn give_to_user(draft: &mut Draft) {
    let is_picture = |part: &Json| matches!(&*part.text_or_empty("type"), "image_url" | "file");
    let (mut slots, mut waiting) = (Vec::with_capacity(draft.len() + 1), Vec::new());
    for at in 0..draft.len() {
        let message = draft.message(at);
        match &*role_of(message) {
            "assistant" | "system" | "developer" => {
                let (pictures, mut others): (Vec<Json>, Vec<Json>) =
                    message.list("content").into_iter().partition(is_picture);
                if !pictures.is_empty() {
                    others.push(text_part(BELOW));
                    let own = draft.edit(at, "messages.content");
                    own.put("content", others.iter().map(Json::deep_clone).collect::<Vec<_>>());
                    reseal(&own);
                    waiting.extend(pictures.iter().map(Json::deep_clone));
                }
            }
            "user" if !waiting.is_empty() => {
                let own = draft.edit(at, "messages.content");
                waiting.extend(match own.field("content") {
                    Json::Text(text) => vec![text_part(&text)],
                    content => content.items(),
                });
                own.put("content", std::mem::take(&mut waiting));
            }
            _ => {}
        }
        slots.push(Slot::Old(at));
    }
    if !waiting.is_empty() {
        slots.push(Slot::New(message::user(waiting)));
        draft.arrange(slots, "messages.content");
    }
}

/// The text in the place of a part that a model cannot read.
fn missing(part: &Json) -> Json {
    let kind = part.text_or_empty("type");
    let what = match &*kind {
        "image_url" | "input_image" | "image" => "An image",
        "input_audio" => "Audio",
        "file" | "document" | "input_file" => "A file",
        _ => return part.clone(),
    };
    text_part(&format!("[{what} is missing here: this model reads text only.]"))
}

/// Replaces each content that is a list by its texts, and names what else was in it.
pub(super) fn write_texts(draft: &mut Draft) {
    for at in 0..draft.len() {
        let Json::Object(fields) = draft.message(at) else { continue };
        let Some(Json::Array(parts)) = fields.get("content") else { continue };
        let parts: Vec<Json> = parts.items().iter().map(missing).collect();
        let texts: Option<Vec<_>> = parts.iter().map(|part| part.text("text")).collect();
        let content = texts.map_or_else(|| parts.into(), |texts| Json::from(texts.join(TEXT_BREAK)));
        let message = draft.edit(at, "messages.content");
        message.remove(CONTENT_BLOCKS);
        message.put("content", content);
    }
}
