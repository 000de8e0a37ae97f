use guest::{Error, Status};

/// What is wrong with a pod, for its author. No node takes such a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem(Status::from(error).reason.into_owned())
    }
}

impl From<&Problem> for Status {
    fn from(problem: &Problem) -> Status {
        Status::unresolvable(problem.0.clone())
    }
}
