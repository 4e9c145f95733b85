package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
)

// repositoryPrefix begins the folder of a model's repository in a cache of Hugging Face.
const repositoryPrefix = "models--"

// Bounds of a look at a cache of Hugging Face.
const (
	// maxEntries bounds the entries of a cache that are looked at, and maxSnapshots the snapshots of
	// a repository.
	maxEntries   = 512
	maxSnapshots = 16
	// maxRepositories bounds the repositories of one cache in which a model's files are looked for.
	maxRepositories = 4
	// maxSmall bounds a file that is read. A larger file is a blob that is named by its digest.
	maxSmall = 16 << 20
	// maxRead bounds what one look reads, over all models. The next look reads what this one leaves.
	maxRead = 64 << 20
)

// digested is a file that was read, as it was then.
type digested struct {
	info fs.FileInfo
	hash string
}

// findBlobs finds files by their digests, because both kinds of stores name a blob by its SHA-256.
func findBlobs(root *os.Root, store, blobs string, files []File, found map[string]place) {
	for _, f := range files {
		if _, done := found[f.Name]; done || !isDigest(f.Hash) {
			continue
		}
		info, err := root.Stat(blobs + f.Hash)
		if err == nil && info.Mode().IsRegular() && info.Size() == f.Size {
			found[f.Name] = place{where{store, blobs + f.Hash}, info}
		}
	}
}

// reader finds files of one model in a cache of Hugging Face. It is for one look at a time.
type reader struct {
	// names are the names that the model's repository may have, such as owner/name.
	names []string
	// readable is how many bytes the look under way may still read, over all models.
	readable *atomic.Int64
	// read are the files that earlier looks have read.
	read map[where]digested
}

// findInCache finds files in a cache of Hugging Face. A large file is a blob that is named by its
// SHA-256. Any other file is a blob that is named by git's digest. So it is found by its own name in a
// snapshot, and is read to compute its SHA-256.
func (r *reader) findInCache(root *os.Root, cache string, files []File, found map[string]place) {
	seen := map[where]digested{}
	for _, repository := range r.repositoriesIn(root, files) {
		findBlobs(root, cache, repository+"/blobs/", files, found)
		snapshots := namesIn(root, repository+"/snapshots", maxSnapshots)
		for _, f := range files {
			if _, done := found[f.Name]; done || f.Size > maxSmall || !fs.ValidPath(f.Name) {
				continue
			}
			for _, snapshot := range snapshots {
				at := where{cache, path.Join(repository, "snapshots", snapshot, f.Name)}
				if p, ok := r.verified(root, at, f, seen); ok {
					found[f.Name] = p
					break
				}
			}
		}
	}
	for at := range r.read {
		if _, still := seen[at]; at.store == cache && !still {
			delete(r.read, at) // a file that this look did not meet is forgotten
		}
	}
}

// repositoriesIn returns the folders of repositories that may hold the files: those with the model's
// names, or, where there are none, those that hold the largest file.
func (r *reader) repositoriesIn(root *os.Root, files []File) []string {
	var all []string
	for _, folder := range r.repositoriesOf(files) {
		if info, err := root.Stat(folder); err == nil && info.IsDir() {
			all = append(all, folder)
		}
	}
	if len(all) > 0 {
		return all[:min(len(all), maxRepositories)]
	}
	largest := files[0]
	for _, f := range files {
		if f.Size > largest.Size {
			largest = f
		}
	}
	if !isDigest(largest.Hash) {
		return nil
	}
	for _, name := range namesIn(root, ".", maxEntries) {
		if !strings.HasPrefix(name, repositoryPrefix) || len(all) == maxRepositories {
			continue
		}
		if info, err := root.Stat(name + "/blobs/" + largest.Hash); err == nil && info.Size() == largest.Size {
			all = append(all, name)
		}
	}
	return all
}

// namesIn returns the names of at most limit entries of a folder.
func namesIn(root *os.Root, folder string, limit int) []string {
	dir, err := root.OpenFile(folder, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(limit)
	if err != nil {
		return nil // it is empty, or no folder
	}
	return names
}

// verified reads a small file, unless it was read before, and reports whether it is the file of
// the catalog.
func (r *reader) verified(root *os.Root, at where, f File, seen map[where]digested) (place, bool) {
	info, err := root.Stat(at.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return place{}, false
	}
	known, was := r.read[at]
	if !was || !same(known.info, info) {
		if r.readable.Add(-info.Size()) < 0 {
			return place{}, false
		}
		if known, err = digest(root, at.path); err != nil {
			return place{}, false
		}
		r.read[at] = known
	}
	seen[at] = known
	return place{at, known.info}, known.hash == f.Hash
}

// digest returns the SHA-256 of a file. It reads no more than a small file has.
func digest(root *os.Root, path string) (digested, error) {
	file, info, err := openRegular(root, path)
	if err != nil {
		return digested{}, err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(file, maxSmall+1)); err != nil {
		return digested{}, err
	}
	return digested{info, hex.EncodeToString(sum.Sum(nil))}, nil
}

// repositoriesOf returns the folders that a cache would give to repositories with the model's names.
func (r *reader) repositoriesOf(files []File) []string {
	names := slices.Clone(r.names)
	if u, err := url.Parse(files[0].URL); err == nil && u.Hostname() == "huggingface.co" {
		if parts := strings.Split(strings.Trim(u.Path, "/"), "/"); len(parts) > 2 {
			names = append(names, parts[0]+"/"+parts[1])
		}
	}
	var folders []string
	for _, name := range names {
		owner, rest, ok := strings.Cut(name, "/")
		folder := repositoryPrefix + owner + "--" + rest
		if ok && owner != "" && rest != "" && !strings.Contains(rest, "/") && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}
