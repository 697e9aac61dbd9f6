//! The content that clients assemble from the events of a stream, without the host's own code: one oracle for each
//! protocol, which also checks that the events are well formed.

mod chat;
mod messages;
mod responses;

pub(crate) use chat::{ReceivedChoice, choices_of};
pub(crate) use messages::ReceivedMessage;
pub(crate) use responses::ReceivedResponse;
