package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/spec"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// templates are the pages by name, each with the frame around it.
var templates = parse()

func parse() map[string]*template.Template {
	shared := template.Must(template.New("frame.html").Funcs(template.FuncMap{"show": show, "word": word}).
		ParseFS(pageFiles, "pages/frame.html", "pages/card.html", "pages/allow.html"))
	out := map[string]*template.Template{}
	names, err := pageFiles.ReadDir("pages")
	if err != nil {
		panic(err)
	}
	for _, f := range names {
		name := strings.TrimSuffix(f.Name(), ".html")
		switch name {
		case "frame", "card", "allow":
			continue
		}
		out[name] = template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, "pages/"+f.Name()))
	}
	return out
}

// show is a text of others on one line, with what cannot be seen spelled out (M8).
func show(text any) string { return manifest.Display(fmt.Sprint(text), 500) }

// frame is what every page is given.
type frame struct {
	Title   string
	Here    string // which part of the navigation
	Owner   string
	Waiting int
	Token   string // of the session, for forms
	Seq     int64  // of the journal: the page is as it was then
	Clock   string
	Body    any
}

// render writes one page for whoever is logged in.
func (s *Server) render(v *visit, status int, page, here, title string, body any) error {
	st, err := s.Gateway.Status(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	return s.write(v.w, status, page, frame{title, here, st.Name, st.Waiting, v.session.token, int64(st.Head), s.Now().In(s.Zone).Format("15:04"), body})
}

// write makes the page whole before the first byte leaves.
func (s *Server) write(w http.ResponseWriter, status int, page string, f frame) error {
	var b bytes.Buffer
	if err := templates[page].ExecuteTemplate(&b, "frame.html", f); err != nil {
		return &spec.Error{Reason: spec.Internal, Err: err}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes()) //nolint:errcheck // the browser is gone
	return nil
}

// refuse says why nothing is shown, and how to get in. Who follows a link on
// another site comes without the cookie (it is strict): once more from here brings it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	body := struct{ Why, Again string }{Why: why}
	if status == http.StatusUnauthorized && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		body.Again = r.URL.EscapedPath()
	}
	if err := s.write(w, status, "out", frame{Title: "Log in", Body: body}); err != nil {
		http.Error(w, "internal", http.StatusInternalServerError)
	}
}

// fail renders an error once: its word, path and limit, and no internal text.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *spec.Error
	reason, text := spec.ReasonOf(err), ""
	if errors.As(err, &e) {
		text = strings.TrimSpace(e.Path + " " + e.Limit)
	}
	if reason == spec.Internal {
		s.Log.Error("console", "path", r.URL.Path, "error", err)
	}
	_, meaning, _ := spec.Explain(string(reason))
	meaning, _, _ = strings.Cut(meaning, "\n")
	body := struct{ Word, Text, Meaning string }{string(reason), manifest.Display(text, 500), meaning}
	if s.write(w, statusOf(reason), "problem", frame{Title: "Not done", Body: body}) != nil {
		http.Error(w, "internal", http.StatusInternalServerError)
	}
}

// static serves what is embedded: two files, no secrets.
func static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	b, err := staticFiles.ReadFile("static/" + name)
	kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(b) //nolint:errcheck // the browser is gone
}

// clock is a time for people, with its zone; "" for none.
func (s *Server) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(s.Zone).Format("Mon 2 Jan 15:04 MST")
}
