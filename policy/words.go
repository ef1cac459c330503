package policy

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	errPerson   = errors.New(`a person is the word owner, or a key with its gates`)
	errDuration = errors.New("a length of time is a whole number and s, m, h or d: 15m, 1d")
	errAmount   = errors.New("an amount is a whole number, or one with k or M: 500k")
	errNames    = errors.New("a list of contacts, or the word anyone")
	errDate     = errors.New("a day is written 2027-06-30")
)

// Duration is a whole number of seconds, written 90s, 15m, 1h or 1d.
type Duration time.Duration

var units = []struct {
	letter string
	of     time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

func (d Duration) String() string {
	for _, u := range units {
		if n := time.Duration(d); n != 0 && n%u.of == 0 {
			return strconv.FormatInt(int64(n/u.of), 10) + u.letter
		}
	}
	return "0s"
}

func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *Duration) UnmarshalText(b []byte) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(string(b), u.letter)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n > uint64(math.MaxInt64/int64(u.of)) {
			return errDuration
		}
		*d = Duration(time.Duration(n) * u.of)
		return nil
	}
	return errDuration
}

// Amount is a count, written 100, 500k or 2M.
type Amount int64

func (a Amount) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(a), 10), nil }

func (a *Amount) UnmarshalText(b []byte) error {
	s, factor := string(b), int64(1)
	if digits, ok := strings.CutSuffix(s, "k"); ok {
		s, factor = digits, 1000
	} else if digits, ok := strings.CutSuffix(s, "M"); ok {
		s, factor = digits, 1_000_000
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return errAmount
	}
	*a = Amount(int64(n) * factor)
	return nil
}

// Date is a day, 2027-06-30, until whose end something holds.
type Date string

// End is the first instant after the day; the zero time for no date.
func (d Date) End() time.Time {
	t, err := time.Parse(time.DateOnly, string(d))
	if err != nil {
		return time.Time{}
	}
	return t.AddDate(0, 0, 1)
}

func (d *Date) UnmarshalText(b []byte) error {
	if _, err := time.Parse(time.DateOnly, string(b)); err != nil {
		return errDate
	}
	*d = Date(b)
	return nil
}

// Names is a list of contacts, or the one word anyone. An empty list is nobody.
type Names []string

// Anyone stands for every contact.
const Anyone = "anyone"

// UnmarshalYAML reads `[ben]` and `anyone`.
func (n *Names) UnmarshalYAML(read func(any) error) error {
	var list []string
	if read(&list) == nil {
		if slices.Contains(list, Anyone) {
			return errNames
		}
		*n = list
		return nil
	}
	var word string
	if read(&word) != nil || word != Anyone {
		return errNames
	}
	*n = Names{Anyone}
	return nil
}

// has says whether the list covers a contact; a contact without a name is nobody's.
func (n Names) has(name string) bool {
	return len(n) == 1 && n[0] == Anyone || name != "" && slices.Contains(n, name)
}

// Words is a word or a list of words.
type Words []string

// UnmarshalYAML reads `none` and `[external_communication, irreversible]`.
func (w *Words) UnmarshalYAML(read func(any) error) error {
	var list []string
	if read(&list) == nil {
		*w = list
		return nil
	}
	var word string
	if err := read(&word); err != nil {
		return err
	}
	*w = Words{word}
	return nil
}

// UnmarshalJSON reads what was kept, and one word alone.
func (w *Words) UnmarshalJSON(b []byte) error {
	var word string
	if json.Unmarshal(b, &word) == nil {
		*w = Words{word}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

// within says whether d is no longer than the bound.
func (d Duration) within(bound time.Duration) bool { return time.Duration(d) <= bound }
