//! Hosts that are processes of their own, on one store: they are killed, and they work side by side.

mod durable;
mod killed;
mod nodes;
mod scripts_in_store;
mod serve;
mod settings;
mod signals;
mod takeover;
mod together;
