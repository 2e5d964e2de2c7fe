//! Requests in the order in which they go. Nearly all come at its end and leave at its front.

use std::collections::VecDeque;

use super::entry::{Entry, Priority, TenantId};
use super::tenants::Turn;

/// The order in which requests of one bucket go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Higher ones come first.
    pub priority: Priority,
    /// Whether it has gone behind the others of its priority.
    pub is_behind: bool,
    /// When it is its tenant's turn.
    pub turn: Turn,
    /// Rises with each request.
    pub number: u64,
}

impl Place {
    /// The same, before it went behind the others.
    pub fn before(self) -> Place {
        Place {
            is_behind: false,
            ..self
        }
    }

    /// The same, behind the others.
    pub fn behind(self) -> Place {
        Place {
            is_behind: true,
            ..self
        }
    }
}

/// Gaps that a line may have, however few wait in it.
const GAPS: usize = 32;

/// A sorted line. Who leaves from its middle leaves a gap; the ends have none, and gaps are never most of it.
pub struct Line<J> {
    all: VecDeque<(Place, Option<Entry<J>>)>,
    gaps: usize,
}

impl<J> Line<J> {
    /// Nobody.
    pub fn new() -> Self {
        Line {
            all: VecDeque::new(),
            gaps: 0,
        }
    }

    /// The place of the first.
    pub fn first(&self) -> Option<Place> {
        self.all.front().map(|&(place, _)| place)
    }

    /// Whose the first is.
    pub fn first_tenant(&self) -> Option<TenantId> {
        let (_, entry) = self.all.front()?;
        entry.as_ref().map(|entry| entry.tenant)
    }

    fn position(&self, place: Place) -> Option<usize> {
        match self.first()? == place {
            true => Some(0),
            false => self
                .all
                .binary_search_by_key(&place, |&(other, _)| other)
                .ok(),
        }
    }

    /// The one at this place.
    pub fn get(&self, place: Place) -> Option<&Entry<J>> {
        self.all.get(self.position(place)?)?.1.as_ref()
    }

    /// Where the one is that came to this place: it may have gone behind the others since.
    pub fn find(&self, place: Place) -> Option<Place> {
        let places = [place, place.behind()];
        places.into_iter().find(|&place| self.get(place).is_some())
    }

    /// Takes one in. Places are unique.
    pub fn add(&mut self, place: Place, entry: Entry<J>) {
        let one = (place, Some(entry));
        match self.all.back() {
            Some(&(last, _)) if last > place => {
                let at = self.all.partition_point(|&(other, _)| other < place);
                self.all.insert(at, one);
            }
            _ => self.all.push_back(one),
        }
    }

    /// Lets the one at this place go.
    pub fn remove(&mut self, place: Place) -> Option<Entry<J>> {
        let at = self.position(place)?;
        let entry = self.all[at].1.take()?;
        self.gaps += 1;
        while let Some((_, None)) = self.all.front() {
            self.all.pop_front();
            self.gaps -= 1;
        }
        while let Some((_, None)) = self.all.back() {
            self.all.pop_back();
            self.gaps -= 1;
        }
        // Who went behind the others may stay at the front for good.
        if self.gaps > GAPS && 2 * self.gaps > self.all.len() {
            self.all.retain(|(_, entry)| entry.is_some());
            self.gaps = 0;
        }
        Some(entry)
    }

    /// Lets all go.
    pub fn clear(&mut self) -> impl Iterator<Item = Entry<J>> + use<J> {
        self.gaps = 0;
        let all = std::mem::take(&mut self.all);
        all.into_iter().filter_map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use super::*;

    fn place(number: u64) -> Place {
        Place {
            priority: Priority::Normal,
            is_behind: false,
            turn: Turn::new(0),
            number,
        }
    }

    fn entry(job: u64) -> Entry<u64> {
        Entry {
            job,
            rows: 1,
            bytes: 0,
            tenant: 0,
            priority: Priority::Normal,
            deadline: None,
            behind: None,
            arrived: Instant::now(),
        }
    }

    #[test]
    fn gaps_behind_one_who_stays_are_closed_and_nobody_is_lost() {
        let (mut line, mut known) = (Line::new(), BTreeMap::new());
        let mut random = 1u64;
        line.add(place(0), entry(0));
        for number in 1..20_000 {
            // Most come at the end, some go behind those who come later.
            let place = match number % 7 {
                0 => place(number).behind(),
                _ => place(number),
            };
            line.add(place, entry(number));
            known.insert(place, number);
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let leaves = (random >> 33) as usize % known.len();
            if known.len() > 100
                && let Some(&place) = known.keys().nth(leaves)
            {
                assert!(line.get(place).is_some());
                let left = line.remove(place).map(|entry| entry.job);
                assert_eq!(left, known.remove(&place));
                assert!(line.get(place).is_none() && line.remove(place).is_none());
            }
            assert!(line.all.len() <= 2 * (known.len() + 1) + GAPS);
            assert_eq!(line.first(), Some(self::place(0)));
        }
        for (place, number) in &known {
            let found = line.find(self::place(*number));
            assert_eq!(found, Some(*place));
        }
        let left: Vec<u64> = line.clear().skip(1).map(|entry| entry.job).collect();
        assert_eq!(left, known.into_values().collect::<Vec<_>>());
    }
}
