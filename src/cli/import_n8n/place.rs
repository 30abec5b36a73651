//! Where a job stands: which step is the next, by what its state shows and what its row says.
//!
//! The state goes before the number in the row: a step whose result is there is done, and a run step without one is not.
//! Whether the number counts from 0 or from 1 is not public; each row is read both ways, and where both fit, by the way
//! that the other rows allow. Where even that leaves two, the earlier step: asking once more is better than to pass by.

/// What a step does, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Run,
    Approval,
    Wait,
}

/// How steps are counted in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The first step is 0.
    Zero,
    /// The first step is 1.
    One,
}

/// What is known of a job's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clues<'a> {
    /// Its steps.
    pub(super) kinds: &'a [Kind],
    /// The last step of which there is a result; 0 if there is none.
    pub(super) done: usize,
    /// The number in the row.
    pub(super) current: Option<i64>,
    /// Whether people have been asked.
    pub(super) awaits: bool,
}

/// Where it goes on, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The next step, from 1; one beyond the last if all are done.
    pub(super) next: usize,
    /// What had to be decided, if anything.
    pub(super) doubt: Option<Doubt>,
}

/// What had to be decided about a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The number fits either way of counting.
    Either,
    /// The number fits neither, and the state alone decided.
    Neither,
}

impl Clues<'_> {
    /// The way of counting that alone makes sense of this row, if there is one.
    pub(super) fn vote(&self) -> Option<Base> {
        let (zero, one) = self.readings();
        match (zero, one) {
            (Some(_), None) => Some(Base::Zero),
            (None, Some(_)) => Some(Base::One),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }

    /// Where it goes on; nothing for one that awaits an approval where none can be.
    pub(super) fn place(&self, base: Option<Base>) -> Option<Place> {
        let sure = |next| Some(Place { next, doubt: None });
        match (self.readings(), base) {
            ((Some(zero), Some(one)), _) if zero == one => sure(zero),
            ((Some(zero), Some(_)), Some(Base::Zero)) => sure(zero),
            ((Some(_), Some(one)), Some(Base::One)) => sure(one),
            ((Some(zero), Some(one)), None) => {
                Some(Place { next: zero.min(one), doubt: Some(Doubt::Either) })
            }
            ((Some(next), None) | (None, Some(next)), _) => sure(next),
            ((None, None), _) => {
                let may_be = |next: &usize| self.may_stand_before(*next);
                let next = (self.done + 1..=self.kinds.len() + 1).find(may_be)?;
                let doubt = self.current.map(|_| Doubt::Neither);
                Some(Place { next, doubt })
            }
        }
    }

    /// The next step, if the number counts from 0, and if it counts from 1.
    fn readings(&self) -> (Option<usize>, Option<usize>) {
        let Some(current) = self.current.and_then(|one| usize::try_from(one).ok()) else {
            return (None, None);
        };
        let fits = |next: usize| Some(next).filter(|next| self.may_stand_before(*next));
        (fits(current.saturating_add(1)), fits(current.max(1)))
    }

    /// Nothing that is done is done again, and no run step is passed by without its result.
    fn may_stand_before(&self, next: usize) -> bool {
        let is_in_range = next > self.done && next <= self.kinds.len() + 1;
        let passed = || &self.kinds[self.done..next - 1];
        let is_approval = || self.kinds.get(next - 1) == Some(&Kind::Approval);
        is_in_range && !passed().contains(&Kind::Run) && (!self.awaits || is_approval())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Kind; 4] = [Kind::Run, Kind::Approval, Kind::Run, Kind::Wait];

    fn clues(done: usize, current: i64, awaits: bool) -> Clues<'static> {
        Clues { kinds: &STEPS, done, current: Some(current), awaits }
    }

    #[test]
    fn the_state_tells_how_steps_are_counted() {
        // Step 1 has its result and people were asked, so the approval is the next, whatever number it has.
        assert_eq!(clues(1, 1, true).vote(), Some(Base::Zero));
        assert_eq!(clues(1, 2, true).vote(), Some(Base::One));
        // Nothing is done, and a number of 1 cannot mean the second step.
        assert_eq!(clues(0, 1, false).vote(), Some(Base::One));
        // Step 3 has its result: 3 counts from 0, for the wait is the next.
        assert_eq!(clues(3, 3, false).vote(), Some(Base::Zero));
        assert_eq!(clues(0, 0, false).vote(), None, "0 means the first step either way");
    }

    #[test]
    fn a_number_that_fits_both_ways_is_read_as_the_others_are() {
        // The first step is done; the approval may be done as well.
        let both = clues(1, 2, false);
        assert_eq!(both.place(Some(Base::Zero)), Some(Place { next: 3, doubt: None }));
        assert_eq!(both.place(Some(Base::One)), Some(Place { next: 2, doubt: None }));
        let careful = Place { next: 2, doubt: Some(Doubt::Either) };
        assert_eq!(both.place(None), Some(careful));
    }

    #[test]
    fn a_number_that_fits_no_way_gives_way_to_the_state() {
        let place = clues(1, 0, false).place(Some(Base::One));
        assert_eq!(place, Some(Place { next: 2, doubt: Some(Doubt::Neither) }));
        let far = clues(0, 99, false).place(None);
        assert_eq!(far, Some(Place { next: 1, doubt: Some(Doubt::Neither) }));
        assert_eq!(
            clues(0, 1, true).place(None),
            None,
            "the draft is missing that is to be approved"
        );
        let untold = Clues { current: None, ..clues(1, 0, true) };
        assert_eq!(untold.place(None), Some(Place { next: 2, doubt: None }));
    }
}
