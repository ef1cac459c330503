package approval

import (
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
)

// Sheet is what [Card] says, for a surface with a layout of its own: the same
// words, so that a terminal and a page never tell two stories. Every text in it
// went through [manifest.Display]; a page still escapes it for its markup.
type Sheet struct {
	Gate     string // contract, delivery, …
	Short    string // the id as people type it
	From     string // from Ann, confirmed contact, 3 tasks finished
	Question string
	Effect   string
	Left     string // how long until it is no: 23 h 58 m; "" once it is
	Until    string // when
	Ends     string // of the contract
	Lines    []Line
	Was      string // what stands before a line's Was
	Author   string // who wrote the quotes
	Quotes   []Quote
	Risk     string
	Because  string
	Signs    string // digest of what a yes signs
	Presence string // with what
}

// Quote is one text of others: whole, a line each, escaped.
type Quote struct {
	Label string
	Lines []string
}

// Sheet lays the ask out, looked at in one instant, times in loc.
func (a Ask) Sheet(at time.Time, loc *time.Location) Sheet {
	name := manifest.Display(a.From.Name, 64)
	s := Sheet{Gate: string(policy.WordOf(a.Gate)), Short: a.Short(), From: direction(a) + " " + from(a, name), Question: a.Question, Effect: a.Effect,
		Until: when(a.Until.Time(), loc), Ends: when(a.Ends.Time(), loc), Lines: a.Lines, Was: was(a), Author: name,
		Risk: strings.Join(a.Risk, ", "), Because: manifest.Display(a.Because, 300), Signs: a.SubjectDigest.String(), Presence: strings.Join(a.Presence, " or ")}
	if at.Before(a.Until.Time()) {
		s.Left = span(a.Until.Time().Sub(at))
	}
	if ours(a) {
		s.Author = "Your agent"
	}
	for _, t := range a.Theirs {
		text, _ := a.text(t)
		n := len(text) + 1 // bytes, so no line is cut
		s.Quotes = append(s.Quotes, Quote{manifest.Display(t.Label, 100), manifest.DisplayLines(text, n, n)})
	}
	return s
}

// ours says whether the quoted words are of our own agent: data all the same.
func ours(a Ask) bool {
	if a.Gate == manifest.SubGate { // the worker's agent drafts the part
		return a.Side == manifest.Worker
	}
	return a.Side == manifest.Requester && a.Gate != manifest.DeliveryGate && a.Gate != manifest.EffectGate
}

func when(t time.Time, loc *time.Location) string { return t.In(loc).Format("Mon 2 Jan 15:04 MST") }

// Figure, Span and Size write numbers, lengths of time and bytes as cards do:
// 200k, 23 h 58 m, 49.1 kB.
func Figure(n int64) string       { return count(n) }
func Span(d time.Duration) string { return span(d) }
func Size(n int64) string         { return size(n) }
