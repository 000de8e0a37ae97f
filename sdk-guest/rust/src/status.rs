//! What a plugin answers: a code of the scheduling framework and a reason for people.

use crate::host;
use std::borrow::Cow;

pub type Result<T> = std::result::Result<T, Error>;

/// Why a call has no answer. It becomes the status Error with this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, str>);

impl Error {
    pub const fn new(reason: &'static str) -> Error {
        Error(Cow::Borrowed(reason))
    }
}

impl From<&'static str> for Error {
    fn from(reason: &'static str) -> Error {
        Error::new(reason)
    }
}

impl From<String> for Error {
    fn from(reason: String) -> Error {
        Error(Cow::Owned(reason))
    }
}

/// Codes of `k8s.io/kube-scheduler/framework`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Success = 0,
    Error = 1,
    Unschedulable = 2,
    UnschedulableAndUnresolvable = 3,
    Wait = 4,
    Skip = 5,
    Pending = 6,
}

impl Code {
    const ALL: [Code; 7] = [
        Code::Success,
        Code::Error,
        Code::Unschedulable,
        Code::UnschedulableAndUnresolvable,
        Code::Wait,
        Code::Skip,
        Code::Pending,
    ];

    /// The code with this number.
    pub(crate) fn of(number: i64) -> Option<Code> {
        Code::ALL.into_iter().find(|code| *code as i64 == number)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    pub reason: Cow<'static, str>,
}

impl Status {
    pub const SUCCESS: Status = Status { code: Code::Success, reason: Cow::Borrowed("") };

    /// From prefilter: this pod needs no filter call. From prescore: it needs no score call, and every
    /// node counts 0. From bind: others bind the pod.
    pub const SKIP: Status = Status { code: Code::Skip, reason: Cow::Borrowed("") };

    /// No, but the node may do once other pods are gone from it.
    pub fn unschedulable(reason: impl Into<Cow<'static, str>>) -> Status {
        Status { code: Code::Unschedulable, reason: reason.into() }
    }

    /// No, and preempting other pods would not help.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Status {
        Status { code: Code::UnschedulableAndUnresolvable, reason: reason.into() }
    }

    /// Hands the reason to the host and returns the code.
    pub fn send(&self) -> i32 {
        if !self.reason.is_empty() {
            // SAFETY: the host reads that many bytes.
            unsafe { host::result_status_reason(self.reason.as_ptr(), self.reason.len()) };
        }
        self.code as i32
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        Status { code: Code::Error, reason: error.0 }
    }
}

impl From<Result<Status>> for Status {
    fn from(result: Result<Status>) -> Status {
        result.unwrap_or_else(Status::from)
    }
}
