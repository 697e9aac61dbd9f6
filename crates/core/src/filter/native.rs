//! Filters in Rust: the trait with a method for each hook, and closures for one hook.

use super::definition::{AsyncHooks, FailurePolicy, FilterEntry, HookRunner, Verdict};
use super::hook::{FilterContext, Hook, Hooks};
use super::subject::{
    Inlet, Outlet, PostChat, PostInvocation, PreChat, PreInvocation, StreamEnd, StreamEvent, Subject,
};
use crate::error::{BoxError, PluginError};
use futures_util::future::BoxFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use valvehouse_executor::{self as executor, WaitEnd, Workload};
use valvehouse_json::Json;

/// The result of a hook: a verdict, or an error. An error counts as a failure of the filter.
pub type HookResult = Result<Verdict, BoxError>;

/// A filter in Rust. Its methods are the hooks of a turn in running order; only implemented ones are called.
///
/// Each hook is an `async fn` and has its own subject, so that a filter before a model call cannot read the
/// answer. A hook runs in the task of its turn: it may wait, must not block, and is dropped if the turn ends.
///
/// ```
/// use valvehouse_core::filter::{Filter, HookResult, PreChat, PreInvocation, Verdict};
///
/// struct OnlyReading;
///
/// impl Filter for OnlyReading {
///     async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
///         tokio::task::yield_now().await;
///         chat.context().set("checked", true);
///         Ok(Verdict::Continue)
///     }
///
///     async fn pre_invocation(&self, call: &mut PreInvocation) -> HookResult {
///         match call.tool_name().starts_with("read") {
///             true => Ok(Verdict::Continue),
///             false => Ok(Verdict::reject("only reading is allowed")),
///         }
///     }
/// }
///
/// let kernel = valvehouse_core::Kernel::builder().filter(OnlyReading).build();
/// assert_eq!(kernel.chain().filters()[0].name(), "OnlyReading");
/// assert_eq!(kernel.chain().filters()[0].hooks().iter().count(), 2);
/// ```
///
/// A subject has no value of another hook:
///
/// ```compile_fail
/// use valvehouse_core::filter::{Filter, HookResult, PreChat, Verdict};
/// struct Peeks;
/// impl Filter for Peeks {
///     async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
///         chat.result();
///         Ok(Verdict::Continue)
///     }
/// }
/// ```
pub trait Filter: Send + Sync + 'static {
    /// Returns the name; by default, that of the type.
    fn name(&self) -> &str {
        let path = std::any::type_name::<Self>();
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path)
    }

    /// Returns the position in the chain: lower values run first. The default is 0.
    fn priority(&self) -> f64 {
        0.0
    }

    /// Returns the policy for failures. By default, the request fails.
    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::FailClosed
    }

    /// Returns `true` if `post_invocation` also runs after a failed tool call. The default is `false`.
    fn on_tool_error(&self) -> bool {
        false
    }

    /// Runs once per turn, before the first model call. [`Verdict::Respond`] ends the turn with this answer.
    fn inlet(&self, request: &mut Inlet) -> impl Future<Output = HookResult> + Send {
        let _ = request;
        NotImplemented
    }

    /// Runs before each model call. [`Verdict::Respond`] replaces the call.
    fn pre_chat(&self, chat: &mut PreChat) -> impl Future<Output = HookResult> + Send {
        let _ = chat;
        NotImplemented
    }

    /// Runs for each event of a model's answer.
    fn stream(&self, event: &mut StreamEvent) -> impl Future<Output = HookResult> + Send {
        let _ = event;
        NotImplemented
    }

    /// Runs once at the end of a model's answer.
    fn stream_end(&self, end: &mut StreamEnd) -> impl Future<Output = HookResult> + Send {
        let _ = end;
        NotImplemented
    }

    /// Runs after each model call. [`Verdict::Respond`] is the final result.
    fn post_chat(&self, chat: &mut PostChat) -> impl Future<Output = HookResult> + Send {
        let _ = chat;
        NotImplemented
    }

    /// Runs before each tool call. [`Verdict::Respond`] is the result of the call; the tool does not run.
    fn pre_invocation(&self, call: &mut PreInvocation) -> impl Future<Output = HookResult> + Send {
        let _ = call;
        NotImplemented
    }

    /// Runs after each tool call. [`Verdict::Respond`] is the final result.
    fn post_invocation(&self, call: &mut PostInvocation) -> impl Future<Output = HookResult> + Send {
        let _ = call;
        NotImplemented
    }

    /// Runs once per turn, after the last model call. [`Verdict::Respond`] is the final answer.
    fn outlet(&self, conversation: &mut Outlet) -> impl Future<Output = HookResult> + Send {
        let _ = conversation;
        NotImplemented
    }
}

/// The future of a hook that a filter does not implement.
struct NotImplemented;

impl Future for NotImplemented {
    type Output = HookResult;

    fn poll(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<HookResult> {
        Poll::Ready(Ok(Verdict::Continue))
    }
}

/// Returns `true` unless the hook is the one that the trait provides. The future of an `async fn` holds its
/// arguments, so that only the provided one has no size.
fn is_implemented<'a, F: 'a, S: 'a, R>(_: impl Fn(&'a F, &'a mut S) -> R) -> bool {
    size_of::<R>() > 0 || std::any::type_name::<R>() != std::any::type_name::<NotImplemented>()
}

/// Returns the hooks that a type implements.
fn hooks_of<F: Filter>() -> Hooks {
    let hooks = [
        (Hook::Inlet, is_implemented(F::inlet)),
        (Hook::PreChat, is_implemented(F::pre_chat)),
        (Hook::Stream, is_implemented(F::stream)),
        (Hook::StreamEnd, is_implemented(F::stream_end)),
        (Hook::PostChat, is_implemented(F::post_chat)),
        (Hook::PreInvocation, is_implemented(F::pre_invocation)),
        (Hook::PostInvocation, is_implemented(F::post_invocation)),
        (Hook::Outlet, is_implemented(F::outlet)),
    ];
    hooks.into_iter().filter_map(|(hook, is)| is.then_some(hook)).collect()
}

impl<F: Filter> From<F> for FilterEntry {
    fn from(filter: F) -> Self {
        Self::from(Arc::new(filter))
    }
}

impl<F: Filter> From<Arc<F>> for FilterEntry {
    fn from(filter: Arc<F>) -> Self {
        let (name, priority) = (filter.name().to_owned(), filter.priority());
        let (failure_policy, on_tool_error) = (filter.failure_policy(), filter.on_tool_error());
        Self::asynchronous(name, hooks_of::<F>(), Arc::new(Native(filter)))
            .priority(priority)
            .failure_policy(failure_policy)
            .seeing_failures(on_tool_error)
    }
}

struct Native<F>(Arc<F>);

/// Runs a hook on its subject and puts the changed value back.
macro_rules! on {
    ($filter:ident.$hook:ident($subject:ident), $ctx:ident) => {
        Box::pin(async move {
            let mut subject = take::<$subject>($ctx);
            let verdict = $filter.$hook(&mut subject).await;
            $ctx.value = subject.into_context().value;
            verdict.map_err(PluginError::of)
        })
    };
}

impl<F: Filter> AsyncHooks for Native<F> {
    fn run<'a>(
        &'a self,
        hook: Hook,
        ctx: &'a mut FilterContext,
    ) -> BoxFuture<'a, Result<Verdict, PluginError>> {
        let filter = &*self.0;
        match hook {
            Hook::Inlet => on!(filter.inlet(Inlet), ctx),
            Hook::PreChat => on!(filter.pre_chat(PreChat), ctx),
            Hook::Stream => on!(filter.stream(StreamEvent), ctx),
            Hook::StreamEnd => on!(filter.stream_end(StreamEnd), ctx),
            Hook::PostChat => on!(filter.post_chat(PostChat), ctx),
            Hook::PreInvocation => on!(filter.pre_invocation(PreInvocation), ctx),
            Hook::PostInvocation => on!(filter.post_invocation(PostInvocation), ctx),
            Hook::Outlet => on!(filter.outlet(Outlet), ctx),
        }
    }
}

fn take<S: Subject>(ctx: &mut FilterContext) -> S {
    S::from_context(FilterContext {
        value: std::mem::replace(&mut ctx.value, Json::Null),
        turn: ctx.turn.clone(),
    })
}

/// A closure of one hook that does not wait.
struct SyncFn<F, S>(F, PhantomData<fn(S)>);

impl<F, S> HookRunner for SyncFn<F, S>
where
    F: Fn(&mut S) -> HookResult + Send + Sync,
    S: Subject,
{
    fn run(&self, _: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let mut subject = take::<S>(ctx);
        let verdict = (self.0)(&mut subject);
        ctx.value = subject.into_context().value;
        verdict.map_err(PluginError::of)
    }
}

/// An async closure of one hook.
struct AsyncClosure<F, S>(F, PhantomData<fn(S)>);

impl<F, S> HookRunner for AsyncClosure<F, S>
where
    F: AsyncFn(&mut S) -> HookResult + Send + Sync,
    S: Subject,
{
    fn run(&self, _: Hook, ctx: &mut FilterContext) -> Result<Verdict, PluginError> {
        let mut subject = take::<S>(ctx);
        let ended = executor::wait((self.0)(&mut subject), |aside| aside());
        ctx.value = subject.into_context().value;
        match ended {
            Ok(verdict) => verdict.map_err(PluginError::of),
            Err(WaitEnd::Over) => Err(PluginError::new("the turn ended while the filter was waiting")),
            Err(WaitEnd::Elsewhere) => {
                Err(PluginError::new("cannot run an async filter on a thread that must not wait"))
            }
        }
    }

    fn workload(&self, _: Hook, _: &FilterContext) -> Option<Workload> {
        Some(Workload::Blocking)
    }
}

/// Creates a filter from an async closure. The type of its argument determines the hook.
///
/// The closure may wait, and need not be `Send` while it does: it runs on its own stack. It is dropped if the
/// turn ends. `?` accepts any error, which counts as a failure of the filter.
///
/// ```
/// use valvehouse_core::filter::{self, PreChat, Verdict};
/// let polite = filter::from_fn("polite", async |chat: &mut PreChat| {
///     tokio::time::sleep(std::time::Duration::from_millis(5)).await;
///     chat.context().set("waited", true);
///     Ok(Verdict::Continue)
/// });
/// ```
pub fn from_fn<S: Subject>(
    name: &str,
    run: impl AsyncFn(&mut S) -> HookResult + Send + Sync + 'static,
) -> FilterEntry {
    FilterEntry::new(name, Hooks::default().with(S::HOOK), Arc::new(AsyncClosure(run, PhantomData)))
}

/// Creates a filter from a closure that does not wait. The type of its argument determines the hook.
///
/// ```
/// use valvehouse_core::filter::{self, StreamEvent, Verdict};
/// let shout = filter::from_sync_fn("shout", |event: &mut StreamEvent| {
///     event.set_text(&event.text().to_uppercase());
///     Ok(Verdict::Continue)
/// });
/// ```
pub fn from_sync_fn<S: Subject>(
    name: &str,
    run: impl Fn(&mut S) -> HookResult + Send + Sync + 'static,
) -> FilterEntry {
    FilterEntry::new(name, Hooks::default().with(S::HOOK), Arc::new(SyncFn(run, PhantomData)))
}

macro_rules! shorthands {
    ($($(#[$doc:meta])* $name:ident($subject:ident),)*) => {$(
        $(#[$doc])*
        pub fn $name(
            name: &str,
            run: impl Fn(&mut $subject) -> HookResult + Send + Sync + 'static,
        ) -> FilterEntry {
            from_sync_fn(name, run)
        }
    )*};
}

shorthands! {
    /// Creates a filter from a closure that runs before the first model call of a turn.
    inlet(Inlet),
    /// Creates a filter from a closure that runs before each model call.
    pre_chat(PreChat),
    /// Creates a filter from a closure that runs for each event of a model's answer.
    stream(StreamEvent),
    /// Creates a filter from a closure that runs at the end of a model's answer.
    stream_end(StreamEnd),
    /// Creates a filter from a closure that runs after each model call.
    post_chat(PostChat),
    /// Creates a filter from a closure that runs before each tool call.
    pre_invocation(PreInvocation),
    /// Creates a filter from a closure that runs after each successful tool call.
    post_invocation(PostInvocation),
    /// Creates a filter from a closure that runs after the last model call of a turn.
    outlet(Outlet),
}
